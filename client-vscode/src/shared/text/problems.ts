/** Why a session cannot be shown, in words. */

import * as vscode from "vscode";
import { withDetail } from "./detail.js";

export type ProblemKind = "damaged" | "locked" | "gone" | "failed";

/** @param message What the server said */
export function problemInWords(kind: ProblemKind, message: string): string {
  switch (kind) {
    case "damaged":
      return withDetail(vscode.l10n.t("This session's files are damaged and cannot be used."), message);
    case "locked":
      return withDetail(vscode.l10n.t("Another program is writing this session."), message);
    case "gone":
      return vscode.l10n.t("This session no longer exists. If it was deleted, it is in the trash.");
    case "failed":
      return withDetail(vscode.l10n.t("The session could not be opened."), message);
  }
}
