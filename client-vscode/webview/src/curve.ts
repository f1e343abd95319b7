/** How many tokens the conversation had along its way. */

import type { Facts, ShownCheckpoint } from "../../src/features/page/wire.js";

export type CurvePoint = readonly [at: number, tokens: number];

/** What was reported, and at the end of the present what it has now: the number that stands above the conversation. */
export function curvePoints(usage: readonly CurvePoint[], checkpoints: readonly Pick<ShownCheckpoint, "at" | "tokens">[], { messages, tokens, timeline }: Pick<Facts, "messages" | "tokens" | "timeline">): CurvePoint[] {
  const reported = usage.length > 0 ? [...usage] : checkpoints.map(({ at, tokens: counted }): CurvePoint => [at, counted]);
  return timeline === undefined && messages > 0 ? [...reported, [messages, tokens]] : reported;
}
