/** The line above the rows: what is going on, where it is not as usual. */

import * as vscode from "vscode";
import type { SidecarState } from "../server/sidecar.js";
import type { Session } from "../sessions/session.js";
import type { Sessions } from "../sessions/sessions.js";

export interface Situation {
  readonly server: SidecarState;
  /** When the server was started again after a crash, if that is news. */
  readonly recovered: Date | undefined;
  readonly sessions: Pick<Sessions, "shown" | "problem">;
}

/** About the server and the shown session. Undefined: there is nothing to say. */
export function viewMessage({ server, recovered, sessions }: Situation): string | undefined {
  const aboutServer = serverMessage({ server, recovered });
  if (server.kind === "failed" || server.kind === "restarting") {
    return aboutServer;
  }
  if (sessions.problem) {
    return sessions.problem.message;
  }
  const lines = [...(aboutServer === undefined ? [] : [aboutServer]), ...aboutSession(sessions)];
  return lines.length === 0 ? undefined : lines.join("\n");
}

/** About the server alone, for the view that is not about one session. */
export function serverMessage({ server, recovered }: Pick<Situation, "server" | "recovered">): string | undefined {
  if (server.kind === "failed") {
    return server.failure.message;
  }
  if (server.kind === "restarting") {
    return vscode.l10n.t("The server has stopped; it is being started again.");
  }
  const when = recovered?.toLocaleTimeString(vscode.env.language);
  return when === undefined ? undefined : vscode.l10n.t("The server had stopped and was started again at {0}; nothing was lost.", when);
}

/** Why a session can only be looked at, and what to do. */
export function whyReadOnly({ restricted, followed, obstacle }: Pick<Session, "restricted" | "followed" | "obstacle">): string {
  if (restricted) {
    return vscode.l10n.t("In Restricted Mode sessions can be looked at, not changed.");
  }
  if (followed) {
    return vscode.l10n.t("The program that writes this session does not answer, so it can only be looked at here. “Reload Session” tries again.");
  }
  return obstacle
    ? vscode.l10n.t("{0} The session can be looked at, not changed. {1} “Reload Session” tries again.", obstacle.what, obstacle.next)
    : vscode.l10n.t("This session can only be looked at here.");
}

function aboutSession({ shown }: Situation["sessions"]): string[] {
  if (!shown) {
    return [];
  }
  const { archived, warnings } = shown.state;
  return [
    ...(shown.writable ? [] : [whyReadOnly(shown)]),
    ...(archived ? [vscode.l10n.t("This session is archived.")] : []),
    ...warnings.slice(0, 3).map((warning) => `⚠ ${warning.message}`),
  ];
}
