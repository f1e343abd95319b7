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
      return vscode.l10n.t("Something in the conversation's log cannot be read, and is left out.");
    case "linesLost":
      return vscode.l10n.t("Messages that were saved are missing from the conversation's log.");
    case "conflictCopy":
      return vscode.l10n.t("A sync program has left another version of the conversation's log beside it.");
    case "otherLog":
      return vscode.l10n.t("Another conversation's log is in the place of this one's.");
    case "externallyModified":
      return vscode.l10n.t("Another program has changed the conversation's log.");
    case "placeholder":
      return vscode.l10n.t("A sync program has one of the session's files elsewhere.");
    case "timelineCut":
      return vscode.l10n.t("An earlier version of the conversation has lost its end.");
    case "logMissing":
      return vscode.l10n.t("The conversation's log is missing.");
    case "recovered":
      return vscode.l10n.t("The end of the log had not been written completely, and was set aside.");
    case "notChecked":
      return vscode.l10n.t("The log could not be checked.");
    case "metaDamaged":
      return vscode.l10n.t("The session's title, folder or settings were damaged; what can be read of them counts.");
    case "stateDamaged":
      return vscode.l10n.t("The session's state was damaged; what can be read of it counts.");
    case "requestsDamaged":
      return vscode.l10n.t("The list of requests that were carried out is damaged; what can be read of it counts.");
    case "auditDamaged":
      return vscode.l10n.t("The audit of approvals is damaged; what can be read of it counts.");
    case "approvalSealBroken":
      return vscode.l10n.t("Approvals are off, because their file was not written by Timeleap.");
    case "approvalNotNoted":
      return vscode.l10n.t("A decision about an approval could not be noted.");
    case "leftover":
      return vscode.l10n.t("The session's folder has a file that nothing uses any more.");
    case "damagedKept":
      return vscode.l10n.t("A damaged file has been kept aside.");
    case "newerVersion":
      return vscode.l10n.t("A newer version of Timeleap has written to this session.");
    case "newerThanTested":
      return vscode.l10n.t("The program that writes this session is newer than those that were tested.");
    case "timelinesPruned":
      return vscode.l10n.t("Old timelines were removed, as the limits say.");
    case "timelinesNotPruned":
      return vscode.l10n.t("Old timelines could not be removed.");
    case "filesNotKept":
    case "filesNotRecovered":
      return vscode.l10n.t("Files of the workspace could not be saved.");
    case "filesIncomplete":
      return vscode.l10n.t("Putting files back was interrupted.");
    case "notReachable":
      return vscode.l10n.t("Other programs cannot join this session.");
    case "trashPurged":
      return vscode.l10n.t("Old sessions were removed from the trash for good.");
    default:
      return undefined;
  }
}
