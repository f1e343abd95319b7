/** Why the files of a session's folder are not saved. */

import * as vscode from "vscode";
import type { FilesProblem } from "timeleap-client";
import { withDetail } from "./detail.js";

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
