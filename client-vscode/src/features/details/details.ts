/** What is known of a checkpoint beyond its name. */

import * as vscode from "vscode";
import type { CheckpointNode } from "../../core/tree/checkpointNodes.js";
import type { RowPart } from "../../core/tree/parts.js";
import { ChangedFilesNode } from "../../kit/fileNodes.js";
import { filesChanged, listed } from "../../shared/text/format.js";
import { failures, grownInWords } from "../../shared/text/happened.js";
import { badgeUri, type Badge } from "./badges.js";
import { changedIn, errorsIn, growthOf } from "./facts.js";
import { isCut, tooltipOf } from "./tooltip.js";

export const detailsOfRows: RowPart = {
  facts: unsaved,
  spoken: (row) => [listed([grownInWords(growthOf(row)), failures(errorsIn(row))]), changedFiles(row)].filter(Boolean),
  badge: (row) => badgeUri(row.id, badgeOf(row)),
  tooltip: (row) => (isCut(row.place, row.span) ? undefined : tooltipOf(row)),
  tooltipToRead: async (row) => {
    const { start, end } = row.span;
    // With the text beyond what the summary has of it; where it cannot be read, with that much.
    await row.place.log.messages(start, end, 1).catch(() => undefined);
    return tooltipOf(row);
  },
  under: (row, refresh) => changedRow(row, refresh),
};

function badgeOf(row: CheckpointNode): Badge {
  const changing = row.spans().map((span) => changedIn(row.place, span) ?? 0).filter((count) => count > 0);
  const [first = 0, ...more] = changing;
  return { failed: errorsIn(row), changed: more.length === 0 ? first : "some", saved: row.span.checkpoint.files?.snapshot !== undefined };
}

/** The row of the files that changed in it; none where nothing is known of them, or none did. */
function changedRow(row: CheckpointNode, refresh: () => void): readonly ChangedFilesNode[] {
  const { checkpoint, next } = row.span;
  const { session, log } = row.place;
  const from = checkpoint.files?.snapshot;
  const to = next?.files?.snapshot;
  // What came after the last checkpoint of a timeline is not on the disk any more.
  if (from === undefined || (to === undefined && (next !== undefined || log.timelineId !== undefined))) {
    return [];
  }
  const count = changedIn(row.place, row.span);
  return count === 0 ? [] : [new ChangedFilesNode(row, { session, from, to }, count, refresh)];
}

function changedFiles(row: CheckpointNode): string {
  const changed = changedIn(row.place, row.span) ?? 0;
  return changed === 0 ? "" : filesChanged(changed);
}

/** Where the view says for the whole session why no files are saved, no row does. */
function unsaved({ span, place }: CheckpointNode): readonly string[] {
  const failed = span.checkpoint.files?.error !== undefined && place.session.state.files?.problem === undefined;
  return failed ? [vscode.l10n.t("files not saved")] : [];
}
