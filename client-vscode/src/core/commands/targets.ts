/** What a command is about: the row it was called on, else the selected row, else the shown session. */

import * as vscode from "vscode";
import type { Session } from "../sessions/session.js";
import type { Sessions } from "../sessions/sessions.js";
import { whyReadOnly } from "../../shared/text/readOnly.js";
import { Refusal } from "./report.js";
import { fork, manageTrust, openAnother, reload, type Step } from "../../shared/text/errorWords.js";

export function shownSession(sessions: Pick<Sessions, "shown">): Session {
  if (!sessions.shown) {
    throw new Refusal(vscode.l10n.t("No session is open."), openAnother());
  }
  return sessions.shown;
}

/** Commands that change something may come from a keyboard or another extension, past what the menus allow. */
export function writableSession(sessions: Pick<Sessions, "shown">): Session {
  const session = shownSession(sessions);
  requireTrust();
  if (!session.writable) {
    throw new Refusal(whyReadOnly(session), ...wayOut(session));
  }
  return session;
}

function wayOut(session: Session): Step[] {
  if (session.mirrorOf !== undefined) {
    return [fork()];
  }
  return session.followed || session.obstacle ? [reload()] : [];
}

export function requireTrust(): void {
  if (!vscode.workspace.isTrusted) {
    throw new Refusal(vscode.l10n.t("In Restricted Mode sessions can be looked at, not changed."), manageTrust());
  }
}

/** The row a command is about, if it is of this kind: given, or selected in a view. */
export function target<T>(kind: abstract new (...args: never[]) => T, node: unknown, view?: vscode.TreeView<unknown>): T | undefined {
  const candidate = node ?? view?.selection[0];
  return candidate instanceof kind ? candidate : undefined;
}
