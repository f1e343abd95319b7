/** What the server warns of, in words of the editor's language. */

import * as vscode from "vscode";
import { withDetail } from "./detail.js";

export function warningInWords(kind: string, message: string): string {
  const words = sentence(kind);
  return words === undefined ? message : withDetail(words, message);
}

/** Undefined: a kind of a later server. */
function sentence(kind: string): string | undefined {
  switch (kind) {
    case "damagedRecord":
    case "notAsWritten":
    case "metaDamaged":
    case "stateDamaged":
    case "requestsDamaged":
    case "auditDamaged":
    case "damagedKept":
      return vscode.l10n.t("Part of this session is damaged.");
    case "linesLost":
    case "timelineCut":
    case "logMissing":
      return vscode.l10n.t("Something that was saved is missing from this session.");
    case "conflictCopy":
    case "otherLog":
    case "externallyModified":
    case "placeholder":
      return vscode.l10n.t("Another program has changed or moved this session's files.");
    case "recovered":
      return vscode.l10n.t("The end of the log had not been written completely, and was set aside.");
    case "notChecked":
      return vscode.l10n.t("The log could not be checked.");
    case "approvalSealBroken":
      return vscode.l10n.t("Approvals are off, because their file was not written by Timeleap.");
    case "approvalNotNoted":
      return vscode.l10n.t("A decision about an approval could not be noted.");
    case "newerVersion":
    case "newerThanTested":
      return vscode.l10n.t("A newer program has written this session than those that were tested.");
    case "timelinesPruned":
    case "trashPurged":
      return vscode.l10n.t("What was old was removed for good, as the limits say.");
    case "leftover":
    case "timelinesNotPruned":
      return vscode.l10n.t("Something old is left over in the session's folder.");
    case "filesNotKept":
    case "filesNotRecovered":
      return vscode.l10n.t("Files of the workspace are not saved.");
    case "filesIncomplete":
      return vscode.l10n.t("Putting files back was interrupted.");
    case "notReachable":
      return vscode.l10n.t("Other programs cannot join this session.");
    default:
      return undefined;
  }
}
