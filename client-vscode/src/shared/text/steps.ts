/** Changes of a whole conversation, in words. */

import * as vscode from "vscode";
import type { ContextDidChange } from "timeleap-client";
import { titleOf } from "./titles.js";

/** The conversation after a step, in words: "Undo → 12 messages". */
export function stepInWords(undoing: boolean, then: string): string {
  return `${titleOf(undoing ? "undo" : "redo")} → ${then}`;
}

const REWRITES: ReadonlySet<string> = new Set(["reverted", "cleared", "compacted", "folded", "timelineRestored", "undone", "redone", "dmailDelivered"]);

/** What another program did, which the person at this window has not asked for; undefined: nothing of this kind. */
export function rewriteInWords(kind: ContextDidChange["kind"], by: string, name: string, gone: string): string | undefined {
  return REWRITES.has(kind) ? vscode.l10n.t("{0} changed “{1}”: {2} set aside.", by, name, gone) : undefined;
}
