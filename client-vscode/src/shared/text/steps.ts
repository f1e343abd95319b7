/** Changes of a whole conversation, in words. */

import * as vscode from "vscode";
import type { ContextDidChange, HistoryStep } from "timeleap-client";

/** What a step takes back, or does again. */
function stepName(kind: HistoryStep["kind"]): string {
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

/** What a step each way is about, and what it makes of the conversation. */
export function stepInWords(undoing: boolean, kind: HistoryStep["kind"], then: string): string {
  const step = stepName(kind);
  return undoing ? vscode.l10n.t("Undo ({0}): the conversation has {1} then", step, then) : vscode.l10n.t("Redo ({0}): the conversation has {1} then", step, then);
}

/** What another program did, which the person at this window has not asked for; undefined: nothing of this kind. */
export function rewriteInWords(kind: ContextDidChange["kind"], by: string, name: string, gone: string): string | undefined {
  const changed = (step: HistoryStep["kind"]): string => vscode.l10n.t("{0} changed “{1}” ({2}): {3} set aside.", by, name, stepName(step), gone);
  switch (kind) {
    case "reverted":
      return vscode.l10n.t("{0} took “{1}” back: {2} set aside.", by, name, gone);
    case "cleared":
      return changed("clear");
    case "compacted":
      return changed("compact");
    case "timelineRestored":
    case "undone":
    case "redone":
      return changed("restore");
    case "dmailDelivered":
      return changed("dmail");
    default:
      return undefined;
  }
}
