import { expect, test } from "vitest";
import type { Timeline } from "timeleap-client";
import { TimelineNode, timelineName } from "../../src/kit/branches.js";
import type { Read } from "../../src/core/sessions/log.js";
import { Timelines, TIMELINES_PAGE, type Branch } from "../../src/kit/timelines.js";

const MANY = 2 * TIMELINES_PAGE + 5;
/** Two beyond the first page, each on a page of its own, that have the same messages. */
const EQUAL = [TIMELINES_PAGE + 1, 2 * TIMELINES_PAGE + 1];

/** Messages of the timeline of that number, of which the present has the first three. */
const lost = (number: number): number => (EQUAL.includes(number) ? 100 : number + 1);
const numberOf = (id: unknown): number => Number(String(id).slice(1));

function server(): { read: Read; asked: { method: string; params: Record<string, unknown> }[] } {
  const asked: { method: string; params: Record<string, unknown> }[] = [];
  const answer = (method: string, params: Record<string, unknown>): unknown => {
    asked.push({ method, params });
    if (method === "context/listTimelines") {
      const { cursor = "0", limit } = params as { cursor?: string; limit: number };
      const from = Number(cursor);
      const end = Math.min(MANY, from + limit);
      const timelines = Array.from({ length: end - from }, (_, index) => ({
        timelineId: `t${from + index}`,
        messageCount: 3 + lost(from + index),
        checkpointCount: 1,
      }));
      return { timelines: timelines as Timeline[], ...(end < MANY ? { nextCursor: String(end) } : {}) };
    }
    if (method === "context/diff") {
      const { from, to } = params as Record<"from" | "to", { timelineId?: string }>;
      const same = to.timelineId !== undefined && lost(numberOf(from.timelineId)) === lost(numberOf(to.timelineId));
      return { common: 3, removedCount: same ? 0 : lost(numberOf(from.timelineId)), addedCount: 0, removed: [{ index: 3, message: { role: "user", content: "first" } }] };
    }
    return { messages: [{ index: 9, message: { role: "assistant", content: "last" } }] };
  };
  return { asked, read: ((method: string, params: Record<string, unknown>) => Promise.resolve(answer(method, params))) as unknown as Read };
}

test("every timeline that is shown says what the present has not, however many there are; equal ones are one", async () => {
  const { read, asked } = server();
  const timelines = new Timelines(read);
  expect(await timelines.distinct()).toHaveLength(TIMELINES_PAGE);
  expect(asked.filter(({ method }) => method === "context/diff")).toHaveLength(TIMELINES_PAGE);
  await timelines.more();
  await timelines.more();
  expect(timelines.hasMore).toBe(false);
  const shown = await timelines.distinct();
  expect(shown).toHaveLength(MANY - 1);
  expect(shown.map(({ branch }) => branch?.lost)).toEqual(shown.map(({ timeline }) => lost(numberOf(timeline.timelineId))));
  expect(shown.map(({ timeline }) => numberOf(timeline.timelineId)).filter((number) => EQUAL.includes(number))).toEqual([EQUAL[0]]);
});

test("what was compared is not compared again when more are shown", async () => {
  const { read, asked } = server();
  const timelines = new Timelines(read);
  await timelines.distinct();
  await timelines.more();
  await timelines.distinct();
  const compared = asked.filter(({ method, params }) => method === "context/diff" && (params["to"] as { timelineId?: string }).timelineId === undefined);
  expect(compared).toHaveLength(2 * TIMELINES_PAGE);
});

test("branches that look the same have their numbers in front; of a compaction the summary's number is the only one", () => {
  const timeline = (timelineId: string, reason: Timeline["reason"]): Timeline => ({ timelineId, reason, messageCount: 9, checkpointCount: 2, file: `${timelineId}.jsonl`, bytes: 9 });
  const branch: Branch = { common: 3, lost: 6, first: { role: "user", content: "why" }, last: { role: "assistant", content: "so" } };
  const label = (reason: Timeline["reason"], alike: boolean): unknown => new TimelineNode({ id: "chat" } as never, timeline("context_12", reason), branch, { parts: [], refresh: () => undefined }, undefined, alike).item().label;
  expect(label("revert", false)).toBe("6 messages: why … so");
  expect(label("revert", true)).toBe("#12 6 messages: why … so");
  expect(label("compact", false)).toBe("why … so");
  expect(timelineName(timeline("context_1", "compact"), { common: 0, lost: 6 })).toBe("Before a compaction");
});
