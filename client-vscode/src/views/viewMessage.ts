/** The line above the rows: what is going on, where it is not as usual. */

import * as vscode from "vscode";
import type { SidecarState } from "../server/sidecar.js";
import type { Sessions } from "../sessions/sessions.js";

export interface Situation {
  readonly server: SidecarState;
  /** When the server was started again after a crash, if that is news. */
  readonly recovered: Date | undefined;
  readonly sessions: Pick<Sessions, "shown" | "problem">;
}

/** Undefined: there is nothing to say. */
export function viewMessage({ server, recovered, sessions }: Situation): string | undefined {
  if (server.kind === "failed") {
    return server.failure.message;
  }
  if (server.kind === "restarting") {
    return vscode.l10n.t("The server has stopped; it is being started again.");
  }
  if (sessions.problem) {
    return sessions.problem.message;
  }
  const lines = [
    ...(recovered ? [vscode.l10n.t("The server had stopped and was started again at {0}; nothing was lost.", recovered.toLocaleTimeString(vscode.env.language))] : []),
    ...aboutSession(sessions),
  ];
  return lines.length === 0 ? undefined : lines.join("\n");
}

function aboutSession({ shown }: Situation["sessions"]): string[] {
  if (!shown) {
    return [];
  }
  const { access, archived, warnings } = shown.state;
  return [
    ...(access === "readOnly" ? [vscode.l10n.t("This session can only be looked at here.")] : []),
    ...(archived ? [vscode.l10n.t("This session is archived.")] : []),
    ...warnings.slice(0, 3).map((warning) => `⚠ ${warning.message}`),
  ];
}
