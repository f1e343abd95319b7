import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { TimeleapError, type SessionMatch } from "timeleap-client";
import { searchCommands } from "../../src/features/search/searchCommands.js";
import { previewOf, Search } from "../../src/kit/search.js";
import { log, user, type QuickPick } from "../support/vscode.js";

beforeEach(() => {
  user.reset();
  vi.useFakeTimers();
});

afterEach(() => void vi.useRealTimers());

interface Asked {
  readonly method: string;
  readonly params: Record<string, unknown>;
  readonly signal: AbortSignal;
}

const match = (index: number, more: Partial<SessionMatch> = {}): SessionMatch => ({
  sessionId: "chat",
  index,
  ranges: [[4, 8]],
  excerpt: { start: 0, text: `say word ${index}` },
  ...more,
});

/** A search box on a server that answers what `pages` says, one after the other. */
async function box(all = false) {
  const asked: Asked[] = [];
  const pages: unknown[] = [];
  const request = (method: string, params: Record<string, unknown>, { signal }: { signal: AbortSignal }): Promise<unknown> => {
    asked.push({ method, params, signal });
    const page = pages.shift() ?? { matches: [] };
    return page instanceof Error ? Promise.reject(page) : Promise.resolve(page);
  };
  const read = () => Promise.resolve({ timelines: [{ timelineId: "t1", reason: "clear" }] });
  const shown = { id: "chat", name: "The chat", read, kept: [] };
  const bench = {
    sidecar: { request },
    sessions: { shown: all ? undefined : shown, list: () => Promise.resolve({ sessions: [{ sessionId: "other", title: "Another one" }] }) },
    log: log(),
  } as never;
  await searchCommands(bench)["search"]!();
  await soon();
  return { pick: user.picks[0]!, asked, pages };
}

const soon = (): Promise<unknown> => vi.advanceTimersByTimeAsync(1_000);
const labels = ({ items }: QuickPick): string[] => items.map(({ label }) => label);

test("what is typed is searched for once, when the typing pauses, in the shown session and what it has set aside", async () => {
  const { pick, asked, pages } = await box();
  pages.push({ matches: [match(3), match(5, { timelineId: "t1", ranges: [[4, 8], [9, 13]] })] });
  for (const text of ["w", "wo", "wor", "word"]) {
    pick.type(text);
    await vi.advanceTimersByTimeAsync(50);
  }
  await soon();
  expect(asked.map(({ method, params }) => [method, params["query"], params["sessionId"], params["ignoreCase"]])).toEqual([["context/search", "word", "chat", true]]);
  expect(labels(pick)).toEqual(["Present", "say word 3", "Before clearing", "say word 5"]);
  expect(pick.items[3]).toMatchObject({ description: "#5 · 2× · Before clearing (set aside)", iconPath: { id: "history" }, alwaysShow: true });
  expect(pick.busy).toBe(false);
});

test("typing on takes back what is under way", async () => {
  const { pick, asked } = await box();
  pick.type("a");
  await soon();
  pick.type("ab");
  expect(asked[0]!.signal.aborted).toBe(true);
  await soon();
  expect(asked).toHaveLength(2);
  pick.hide();
  expect(asked[1]!.signal.aborted).toBe(true);
});

test("an answer that comes too late is not shown", async () => {
  const { pick, pages } = await box();
  let answer: (page: unknown) => void = () => undefined;
  pages.push(new Promise((resolve) => (answer = resolve)), { matches: [match(2)] });
  pick.type("a");
  await soon();
  pick.type("ab");
  await soon();
  answer({ matches: [match(1)] });
  await soon();
  expect(labels(pick)).toEqual(["Present", "say word 2"]);
});

test("all sessions are searched by name, where none is shown and where that is asked for", async () => {
  const nothingShown = await box(true);
  nothingShown.pick.type("word");
  await soon();
  expect(nothingShown.asked[0]).toMatchObject({ method: "session/search" });
  const { asked, pages } = await box();
  const pick = user.picks.at(-1)!;
  pick.press("Search all sessions");
  pages.push({ matches: [match(1, { sessionId: "other" }), match(2, { sessionId: "third" })] });
  pick.type("word");
  await soon();
  expect(asked[0]).toMatchObject({ method: "session/search" });
  expect(labels(pick)).toEqual(["Another one", "say word 1", "third", "say word 2"]);
  pick.press("Search: The chat");
  await soon();
  expect(asked[1]).toMatchObject({ method: "context/search", params: { sessionId: "chat" } });
});

test("pages without matches are gone through; more are asked for when there is enough to read", async () => {
  const { pick, asked, pages } = await box();
  const many = Array.from({ length: 40 }, (_, index) => match(index));
  pages.push({ matches: [], nextCursor: "1" }, { matches: many, nextCursor: "2" }, { matches: [match(99)] });
  pick.type("word");
  await soon();
  expect(asked.map(({ params }) => params["cursor"])).toEqual([undefined, "1"]);
  expect(labels(pick).at(-1)).toContain("Show More");
  pick.choose("Show More");
  await soon();
  expect(asked[2]!.params["cursor"]).toBe("2");
  expect(labels(pick).slice(-2)).toEqual(["say word 39", "say word 99"]);
});

test("case and expressions are switched by buttons, and the title says so", async () => {
  const { pick, asked } = await box();
  pick.type("Word");
  await soon();
  pick.press("Match case");
  await soon();
  pick.press("Regular expression");
  await soon();
  expect(asked.map(({ params }) => [params["ignoreCase"], params["regex"]])).toEqual([[true, false], [false, false], [false, true]]);
  expect(pick.title).toBe("Search: The chat · Match case · Regular expression");
});

test("nothing found, a bad expression and what could not be read are said", async () => {
  const { pick, pages } = await box();
  pick.type("word");
  await soon();
  expect(labels(pick)).toEqual(["Nothing found"]);
  pages.push(TimeleapError.make("invalidParams", "missing )"));
  pick.type("(");
  await soon();
  expect(labels(pick)).toEqual(["$(error) missing )"]);
  pages.push({ matches: [match(1)], unread: [{ message: "t1 is damaged" }] });
  pick.type("x");
  await soon();
  expect(pick.items.at(-1)).toMatchObject({ label: "$(warning) Not everything could be searched", detail: "t1 is damaged" });
  pick.type("  ");
  await soon();
  expect(labels(pick)).toEqual([]);
});

test("a log that is rewritten between two pages is searched from the beginning", async () => {
  const { pick, asked, pages } = await box();
  pages.push({ matches: [], nextCursor: "1" }, TimeleapError.make("contentModified", "x"), { matches: [match(7)] });
  pick.type("word");
  await soon();
  expect(asked.map(({ params }) => params["cursor"])).toEqual([undefined, "1", undefined]);
  expect(labels(pick)).toEqual(["Present", "say word 7"]);
});

test("a message that is chosen is shown where it stands in its conversation", async () => {
  const { pick, pages } = await box();
  pages.push({ matches: [match(5, { timelineId: "t1" })] });
  pick.type("word");
  await soon();
  pick.choose("say word 5");
  expect(pick.shown).toBe(false);
  expect(user.executed.at(-1)).toEqual({ command: "timeleap.openConversation", args: [{ sessionId: "chat", index: 5, query: "word", timeline: "t1" }] });
});

test("a preview is one line with the match in sight, and nothing in it becomes an icon", async () => {
  const long = { ranges: [[500, 504]] as [number, number][], excerpt: { start: 400, text: `${"x".repeat(98)}\n word\nmore` } };
  expect(previewOf(long)).toBe(`…${"x".repeat(23)} word more`);
  expect(previewOf({ ranges: [[0, 1]] })).toBe("");
  const { pick, pages } = await box();
  pages.push({ matches: [match(1, { ranges: [[0, 1]], excerpt: { start: 0, text: "$(flame) $(not one" } })] });
  pick.type("f");
  await soon();
  expect(labels(pick)[1]).toBe("\\$(flame) $(not one");
});

test("a search has all that was found, page by page", async () => {
  const pages = [{ matches: [match(1)], nextCursor: "x" }, { matches: [match(2)] }];
  const search = new Search({ request: () => Promise.resolve(pages.shift()) } as never, { query: "w", regex: false, ignoreCase: true });
  await search.next();
  expect(search.hasMore).toBe(true);
  await search.next();
  expect(search.hasMore).toBe(false);
  expect(search.hits.map(({ index }) => index)).toEqual([1, 2]);
});
