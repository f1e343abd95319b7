/** Changes of a whole conversation, in words. */

import * as vscode from "vscode";
import type { ContextDidChange, HistoryStep } from "timeleap-client";

/** What a step takes back, or does again. */
export function stepName(kind: HistoryStep["kind"]): string {
  switch (kind) {
    case "revert":
      return vscode.l10n.t("going back");
    case "clear":
      return vscode.l10n.t("clearing");
    case "compact":
      return vscode.l10n.t("a compaction");
    case "restore":
      return vscode.l10n.t("a restored timeline");
    case "dmail":
      return vscode.l10n.t("a D-Mail");
  }
}

/** What another program did, which the person at this window has not asked for; undefined: nothing of this kind. */
export function rewriteInWords(kind: ContextDidChange["kind"], by: string, name: string, gone: string): string | undefined {
  switch (kind) {
    case "reverted":
      return vscode.l10n.t("{0} took “{1}” back: {2} set aside.", by, name, gone);
    case "cleared":
      return vscode.l10n.t("{0} cleared “{1}”: {2} set aside.", by, name, gone);
    case "compacted":
      return vscode.l10n.t("{0} compacted “{1}”: {2} set aside.", by, name, gone);
    case "timelineRestored":
    case "undone":
    case "redone":
      return vscode.l10n.t("{0} brought an earlier state of “{1}” back: {2} set aside.", by, name, gone);
    case "dmailDelivered":
      return vscode.l10n.t("{0} delivered a D-Mail in “{1}”: {2} set aside.", by, name, gone);
    default:
      return undefined;
  }
}
