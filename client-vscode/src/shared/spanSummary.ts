/** What happened between a checkpoint and the next, as the server sums it up. */

import type { Checkpoint, ContextDidChange, SpanSummary, SummaryCall } from "timeleap-client";

export type { SpanSummary };
export type SpanCall = SummaryCall;

/** What is told of a checkpoint after it was written. */
export type SpanNews = Pick<Checkpoint, "preview" | "summary" | "name">;

/** Undefined: the server is of an earlier version. */
export function summaryOf(checkpoint: Checkpoint): SpanSummary | undefined {
  return checkpoint.summary;
}

/** What a notification tells of the newest span, if the change is one of it and the server tells it. */
export function spanIn(change: ContextDidChange): { readonly checkpointUid: string; readonly summary: SpanSummary; readonly name?: string } | undefined {
  return "span" in change ? change.span : undefined;
}
