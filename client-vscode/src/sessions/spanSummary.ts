/** What happened between a checkpoint and the next, as the server sums it up. */

import type { Checkpoint } from "timeleap-client";

export interface SpanCall {
  readonly name: string;
  readonly argument?: string;
  readonly failed?: boolean;
}

export interface SpanSummary {
  readonly kind: "prompt" | "calls" | "text" | "compacted" | "dmail" | "empty";
  /** One line, without the marks of Markdown. */
  readonly text: string;
  readonly calls?: readonly SpanCall[];
  readonly moreCalls?: number;
  readonly files?: readonly string[];
  readonly errors?: number;
  readonly messages: number;
  readonly tokens?: number;
}

/** What is told of a checkpoint after it was written. */
export type SpanNews = Pick<Checkpoint, "preview"> & { readonly summary?: SpanSummary };

/** Undefined: the server is of an earlier version. */
export function summaryOf(checkpoint: Checkpoint): SpanSummary | undefined {
  return (checkpoint as SpanNews).summary;
}

/** What a notification tells of the newest span, if the change is one of it and the server tells it. */
export function spanIn(change: object): { readonly checkpointUid: string; readonly summary: SpanSummary } | undefined {
  return (change as { readonly span?: { readonly checkpointUid: string; readonly summary: SpanSummary } }).span;
}
