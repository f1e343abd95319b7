import { expect, test } from "vitest";
import type { Checkpoint } from "timeleap-client";
import { Log, PAGE, type Read } from "../../src/core/sessions/log.js";
import { Pages } from "../../src/core/sessions/pages.js";

const checkpoint = (id: number): Checkpoint => ({ id, uid: `c${id}`, messageCount: id * 2, tokenCount: id * 10 });

/** A log of that many checkpoints with two messages each, which counts what is asked of it. */
class Server {
  readonly asked: { method: string; params: Record<string, unknown> }[] = [];
  /** Answers wait for it. */
  gate: Promise<void> = Promise.resolve();

  constructor(public count: number) {}

  get total(): number {
    return this.count * 2;
  }

  readonly read = (async (method: string, params: Record<string, unknown>) => {
    this.asked.push({ method, params });
    const { count } = this;
    await this.gate;
    if (method === "context/getHistory") {
      const { from, to, limit } = params as { from: number; to: number; limit: number };
      const end = Math.min(to, from + limit);
      return { messages: Array.from({ length: end - from }, (_, index) => ({ index: from + index, message: { role: "user", content: String(from + index) } })) };
    }
    const start = params["cursor"] === undefined ? count - 1 : Number(params["cursor"]);
    const last = Math.max(-1, start - (params["limit"] as number));
    const checkpoints = Array.from({ length: start - last }, (_, index) => checkpoint(start - index));
    return { checkpoints, ...(last >= 0 ? { nextCursor: String(last) } : {}) };
  }) as unknown as Read;
}

const logOf = (server: Server): Log => new Log({ read: server.read, total: () => server.total });
const ids = async (log: Log): Promise<number[]> => (await log.spans()).map((span) => span.checkpoint.id);

test("a page is loaded when somebody looks, and each further one when it is asked for", async () => {
  const server = new Server(10_000);
  const log = logOf(server);
  expect(await ids(log)).toHaveLength(PAGE);
  expect(await ids(log)).toHaveLength(PAGE);
  expect(server.asked).toHaveLength(1);
  expect(log.hasMore).toBe(true);
  await log.more();
  expect(await ids(log)).toHaveLength(2 * PAGE);
  expect(server.asked.every(({ params }) => (params["limit"] as number) <= PAGE)).toBe(true);
});

test("those who look at the same time share one request", async () => {
  const server = new Server(3);
  const log = logOf(server);
  await Promise.all([log.spans(), log.spans(), log.more()]);
  expect(server.asked).toHaveLength(1);
  expect(await ids(log)).toEqual([2, 1, 0]);
});

test("a span reaches from its checkpoint to the next newer one, the newest to the end", async () => {
  const server = new Server(3);
  const spans = await logOf(server).spans();
  expect(spans.map(({ start, end, next }) => [start, end, next?.id])).toEqual([[4, 6, undefined], [2, 4, 2], [0, 2, 1]]);
});

test("a checkpoint that is written while the first page is on its way is there once", async () => {
  for (const inPage of [true, false]) {
    const server = new Server(2);
    const log = logOf(server);
    let open = (): void => undefined;
    server.gate = new Promise((resolve) => (open = resolve));
    server.count = inPage ? 3 : 2;
    const looking = log.spans();
    log.add(checkpoint(2));
    open();
    await looking;
    expect(await ids(log)).toEqual([2, 1, 0]);
  }
});

test("checkpoints that come later go to the front without a request", async () => {
  const server = new Server(2);
  const log = logOf(server);
  await log.spans();
  log.add(checkpoint(2));
  log.add(checkpoint(3));
  expect(await ids(log)).toEqual([3, 2, 1, 0]);
  expect(server.asked).toHaveLength(1);
});

test("a reset while a page is on its way does not let the old page in", async () => {
  const server = new Server(5);
  const log = logOf(server);
  let open = (): void => undefined;
  server.gate = new Promise((resolve) => (open = resolve));
  const looking = log.spans();
  log.reset();
  server.count = 2;
  open();
  expect((await looking).map(({ checkpoint: { id } }) => id)).toEqual([1, 0]);
});

test("after a reset as many pages are there as before, and as many messages as are shown", async () => {
  const server = new Server(10_000);
  const log = logOf(server);
  await log.spans();
  await log.more();
  await log.more();
  expect(await ids(log)).toHaveLength(3 * PAGE);
  log.reset();
  expect(await ids(log)).toHaveLength(3 * PAGE);
  expect(await log.messages(0, 1_000, 3 * PAGE)).toHaveLength(3 * PAGE);
  expect(server.asked.every(({ params }) => (params["limit"] as number) <= PAGE)).toBe(true);
});

test("whether there is more is what the list said that is in hand, also once it is no longer true", async () => {
  const server = new Server(PAGE);
  const log = logOf(server);
  const spans = await log.spans();
  log.reset();
  expect(log.hasMore).toBe(false);
  server.count = PAGE + 1;
  expect(await log.spans()).toHaveLength(spans.length);
  expect(log.hasMore).toBe(true);
  log.reset();
  expect(log.hasMore).toBe(true);
  server.count = 1;
  expect(await log.spans()).toHaveLength(1);
  expect(log.hasMore).toBe(false);
});

test("a reset while messages are on their way does not keep them", async () => {
  const server = new Server(5);
  const log = logOf(server);
  let open = (): void => undefined;
  server.gate = new Promise((resolve) => (open = resolve));
  const looking = log.messages(0, 10);
  log.reset();
  open();
  await looking;
  await log.messages(0, 10);
  expect(server.asked).toHaveLength(2);
});

test("messages come a page at a time, however many there are", async () => {
  const server = new Server(5_000);
  const log = logOf(server);
  expect(await log.messages(0, 10_000)).toHaveLength(PAGE);
  expect(await log.messages(0, 10_000, 2 * PAGE)).toHaveLength(2 * PAGE);
  expect(server.asked.map(({ params }) => params["from"])).toEqual([0, PAGE]);
  expect(server.asked.every(({ params }) => (params["limit"] as number) <= PAGE)).toBe(true);
});

test("what was appended to an open range is all that is asked for", async () => {
  const server = new Server(2);
  const log = logOf(server);
  await log.messages(2, 4);
  server.count = 3;
  expect((await log.messages(2, 6)).map(({ index }) => index)).toEqual([2, 3, 4, 5]);
  expect(server.asked.at(-1)!.params).toMatchObject({ from: 4, to: 6 });
});

test("the beginning is what was before the first checkpoint", async () => {
  const log = new Log({ read: () => Promise.resolve({ checkpoints: [{ ...checkpoint(0), messageCount: 7 }] }), total: () => 9 });
  expect(log.beginning(await log.spans())).toEqual({ start: 0, end: 7 });
  const bare = new Log({ read: () => Promise.resolve({ checkpoints: [] }), total: () => 9 });
  expect(bare.beginning(await bare.spans())).toEqual({ start: 0, end: 9 });
  const long = logOf(new Server(PAGE * 2));
  expect(long.beginning(await long.spans())).toBeUndefined();
});

test("a page that fails can be asked for again", async () => {
  let fails = true;
  const pages = new Pages<number>(() => (fails ? Promise.reject(new Error("no")) : Promise.resolve({ entries: [1], nextCursor: undefined })));
  await expect(pages.list()).rejects.toThrow("no");
  fails = false;
  expect(await pages.list()).toEqual([1]);
});
