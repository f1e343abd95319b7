/** The session that a window shows which shows none. */

import * as vscode from "vscode";
import type { SessionOpenParams } from "timeleap-client";
import type { Sidecar } from "../../core/server/sidecar.js";
import type { Sessions } from "../../core/sessions/sessions.js";
import { readSettings } from "../../shared/settings.js";
import { workspaces } from "../../shared/workspaces.js";

/** The newest session of this workspace; undefined: there is none, or a setting says that none is shown by itself. */
export async function newestOfWorkspace(sessions: Pick<Sessions, "list">): Promise<SessionOpenParams | undefined> {
  if (!readSettings().openNewest) {
    return undefined;
  }
  const pages = await Promise.all(workspaces().map(({ uri }) => sessions.list({ workspace: uri, limit: 1 })));
  const [found] = pages.flatMap((page) => page.sessions).sort((one, other) => other.updatedAt.localeCompare(one.updatedAt));
  return found && { sessionId: found.sessionId, create: false };
}

/** Milliseconds after which is looked again. */
const PAUSE = 60_000;

/** Nobody tells of sessions that are not open: where none is shown, there may be one by now. */
export function lookAgain(sidecar: Pick<Sidecar, "state">, sessions: Sessions): vscode.Disposable {
  const look = (): void => {
    if (!sessions.shown && sidecar.state.kind === "ready") {
      sessions.listMayHaveChanged();
    }
  };
  const timer = setInterval(look, PAUSE);
  return vscode.Disposable.from(
    new vscode.Disposable(() => clearInterval(timer)),
    vscode.window.onDidChangeWindowState(({ focused }) => focused && look()),
  );
}
