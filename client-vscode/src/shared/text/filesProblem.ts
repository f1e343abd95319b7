/** Why the files of a session's folder are not saved. */

import * as vscode from "vscode";
import type { FilesProblem } from "timeleap-client";
import { sentences, withDetail } from "./detail.js";

/** With the reason. Everything but the files works as ever. */
export function problemInWords({ kind, reason, message }: FilesProblem): string {
  if (kind === "filesIncomplete") {
    return withDetail(vscode.l10n.t("Putting files back was interrupted."), message);
  }
  const notSaved = vscode.l10n.t("Files of the workspace are not saved.");
  return kind === "filesUnavailable" && reason === "noGit"
    ? sentences(notSaved, vscode.l10n.t("That needs git 2.36 or newer, which was not found."))
    : withDetail(notSaved, message);
}
