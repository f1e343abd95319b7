/** The line above the rows: what is going on, where it is not as usual. */

import * as vscode from "vscode";
import type { FilesProblem } from "timeleap-client";
import type { SidecarState } from "../server/sidecar.js";
import { staleInWords } from "../server/staleness.js";
import type { Session } from "../sessions/session.js";
import type { Sessions } from "../sessions/sessions.js";
import { withDetail } from "../../shared/text/detail.js";
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

/** Why a session can only be looked at, and what to do. */
export function whyReadOnly({ mirrorOf, restricted, followed, obstacle }: Pick<Session, "mirrorOf" | "restricted" | "followed" | "obstacle">): string {
  if (mirrorOf !== undefined) {
    return vscode.l10n.t("A read-only copy of a {0} conversation. It grows as {0} works. Continue there from any checkpoint, or fork it to go on here.", mirrorOf);
  }
  if (restricted) {
    return vscode.l10n.t("In Restricted Mode sessions can be looked at, not changed.");
  }
  if (followed) {
    return vscode.l10n.t("The program that writes this session does not answer, so it can only be looked at here. “Refresh” tries again.");
  }
  return obstacle
    ? vscode.l10n.t("{0} The session can be looked at, not changed. {1} “Refresh” tries again.", obstacle.what, obstacle.next)
    : vscode.l10n.t("This session can only be looked at here.");
}

function aboutSession({ shown }: Situation["sessions"]): string[] {
  if (!shown) {
    return [];
  }
  const { archived, warnings } = shown.state;
  return [
    ...(shown.writable ? [] : [whyReadOnly(shown)]),
    ...filesMessage(shown),
    ...(archived ? [vscode.l10n.t("This session is archived.")] : []),
    ...warnings.slice(0, 3).map((warning) => `⚠ ${warningInWords(warning.kind, warning.message)}`),
  ];
}

/** Why files are not saved though they should be; said here, and not at each checkpoint. */
function filesMessage({ state }: Session): string[] {
  const problem = state.files?.problem;
  // Where nobody asked for files only what has been left half done matters.
  return problem && (state.files?.mode !== "off" || problem.kind === "filesIncomplete") ? [problemInWords(problem)] : [];
}

/** With what to do about it. Everything but the files works as ever. */
export function problemInWords({ kind, reason, message }: FilesProblem): string {
  if (kind === "filesIncomplete") {
    return withDetail(vscode.l10n.t("Putting files back was interrupted."), message);
  }
  const why = kind === "filesUnavailable" ? reasonInWords(reason) : undefined;
  return why === undefined
    ? withDetail(vscode.l10n.t("Files of the workspace are not saved."), message, vscode.l10n.t("Everything else works."))
    : vscode.l10n.t("{0} {1}", vscode.l10n.t("Files of the workspace are not saved: {0}", why), vscode.l10n.t("Everything else works."));
}

function reasonInWords(reason: string | undefined): string | undefined {
  switch (reason) {
    case "noGit":
      return vscode.l10n.t("git 2.36 or newer is needed, and was not found.");
    case "notConfigured":
      return vscode.l10n.t("the session belongs to no folder.");
    case "rootMissing":
      return vscode.l10n.t("the session's folder is not there, or is another one now.");
    case "rootUnsafe":
      return vscode.l10n.t("the session's folder is too large a part of this machine, such as a home folder.");
    default:
      return undefined;
  }
}
