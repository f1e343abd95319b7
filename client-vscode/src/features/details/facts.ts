/** Numbers of a row: of its own span, and of the steps in it. */

import type { Span } from "../../core/sessions/log.js";
import type { CheckpointNode } from "../../core/tree/checkpointNodes.js";
import type { Place } from "../../core/tree/parts.js";
import { summaryOf } from "../../shared/spanSummary.js";
import type { Growth } from "../../shared/text/happened.js";

export function errorsIn(row: CheckpointNode): number {
  return row.spans().reduce((sum, { checkpoint }) => sum + (summaryOf(checkpoint)?.errors ?? 0), 0);
}

/** Of the messages that it opens to. */
export function growthOf(row: CheckpointNode): Growth {
  const spans = row.spans();
  const tokens = spans.map((span) => tokensIn(row.place, span));
  const known = tokens.filter((count) => count !== undefined);
  const messages = spans.reduce((sum, { start, end }) => sum + end - start, 0);
  return { messages, tokens: known.length < tokens.length ? undefined : known.reduce((sum, count) => sum + count, 0) };
}

function tokensIn({ session, log }: Place, { checkpoint, next }: Span): number | undefined {
  const after = next?.tokenCount ?? (log.timelineId === undefined ? session.state.context.tokenCount : undefined);
  return summaryOf(checkpoint)?.tokens ?? (after === undefined ? undefined : after - checkpoint.tokenCount);
}

/** Files that changed in a span; undefined: not known. */
export function changedIn({ session }: Place, { next }: Span): number | undefined {
  // With snapshots at the ends of turns the next checkpoint's count is what came after the last of them.
  return session.state.files?.mode === "turn" ? undefined : next?.files?.changed;
}
