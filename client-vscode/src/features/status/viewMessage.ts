/** The line above the rows: what is going on, where it is not as usual. */

import * as vscode from "vscode";
import type { SidecarState } from "../../core/server/sidecar.js";
import { staleInWords } from "../../kit/staleness.js";
import type { Session } from "../../core/sessions/session.js";
import type { Sessions } from "../../core/sessions/sessions.js";
import { problemInWords } from "../../shared/text/filesProblem.js";
import { whyReadOnly } from "../../shared/text/readOnly.js";
import { warningInWords } from "../../shared/text/warnings.js";

export interface Situation {
  readonly server: SidecarState;
  /** When the server was started again after a crash, if that is news. */
  readonly recovered: Date | undefined;
  /** The last answer may lack the newest changes. */
  readonly stale: boolean;
  readonly sessions: Pick<Sessions, "shown" | "problem">;
}

/** About the server and the shown session. Undefined: there is nothing to say. */
export function viewMessage({ server, recovered, stale, sessions }: Situation): string | undefined {
  const aboutServer = serverMessage({ server, recovered, stale });
  if (server.kind === "failed" || server.kind === "restarting") {
    return aboutServer;
  }
  if (sessions.problem) {
    return sessions.problem.message;
  }
  const lines = [...(aboutServer === undefined ? [] : [aboutServer]), ...aboutSession(sessions)];
  return lines.length === 0 ? undefined : lines.join("\n");
}

/** About the server and its store alone, for the view that is not about one session. */
export function serverMessage({ server, recovered, stale }: Omit<Situation, "sessions">): string | undefined {
  if (server.kind === "failed") {
    return server.failure.message;
  }
  if (server.kind === "restarting") {
    return vscode.l10n.t("The server has stopped; it is being started again.");
  }
  const when = recovered?.toLocaleTimeString(vscode.env.language);
  const lines = [
    ...(when === undefined ? [] : [vscode.l10n.t("The server had stopped and was started again at {0}; nothing was lost.", when)]),
    ...(stale ? [`⚠ ${staleInWords()}`] : []),
  ];
  return lines.length === 0 ? undefined : lines.join("\n");
}

function aboutSession({ shown }: Situation["sessions"]): string[] {
  if (!shown) {
    return [];
  }
  const { archived, warnings } = shown.state;
  return [
    ...(shown.writable ? [] : [whyReadOnly(shown)]),
    ...filesMessage(shown),
    ...(archived ? [vscode.l10n.t("Archived")] : []),
    ...warnings.slice(0, 3).map((warning) => `⚠ ${warningInWords(warning.kind, warning.message)}`),
  ];
}

/** Why files are not saved though they should be; said here, and not at each checkpoint. */
function filesMessage({ state }: Session): string[] {
  const problem = state.files?.problem;
  // Where nobody asked for files only what has been left half done matters.
  return problem && (state.files?.mode !== "off" || problem.kind === "filesIncomplete") ? [problemInWords(problem)] : [];
}
