import { expect, test } from "vitest";
import type { ShownMessage } from "../../src/features/page/wire.js";
import { BLOCK, Messages } from "../src/store.js";

const message = (index: number, text = `m${index}`): ShownMessage => ({ index, role: "user", parts: [{ kind: "text", text }], calls: [] });
const range = (from: number, to: number): ShownMessage[] => Array.from({ length: to - from }, (_, at) => message(from + at));

function store(): { messages: Messages; asked: [number, number][] } {
  const asked: [number, number][] = [];
  return { messages: new Messages((from, to) => asked.push([from, to])), asked };
}

test("what is not here is asked for once, a block at a time, up to the end", () => {
  const { messages, asked } = store();
  expect(messages.get(50, 100)).toBeUndefined();
  expect(messages.get(51, 100)).toBeUndefined();
  expect(messages.get(90, 100)).toBeUndefined();
  expect(asked).toEqual([[BLOCK, 2 * BLOCK], [2 * BLOCK, 100]]);
  messages.put(BLOCK, 2 * BLOCK, range(BLOCK, 2 * BLOCK));
  expect(messages.get(50, 100)).toEqual(message(50));
  expect(asked).toHaveLength(2);
});

test("what the server left out cannot be read; it is not asked for again", () => {
  const { messages, asked } = store();
  messages.put(0, BLOCK, range(0, BLOCK).filter(({ index }) => index !== 3));
  expect([messages.get(3, 100), messages.peek(4)]).toEqual([null, message(4)]);
  expect(asked).toEqual([]);
});

test("a block that has grown is asked for again", () => {
  const { messages, asked } = store();
  messages.put(0, 10, range(0, 10));
  expect(messages.get(10, 12)).toBeUndefined();
  expect(asked).toEqual([[0, 12]]);
  messages.put(0, 12, range(0, 12));
  expect(messages.get(11, 12)).toEqual(message(11));
});

test("a part of a block without what is before it is of no use", () => {
  const { messages } = store();
  messages.put(30, 90, range(30, 90));
  expect([messages.peek(35), messages.peek(40), messages.peek(89)]).toEqual([undefined, message(40), message(89)]);
});

test("what a rewrite made untrue is forgotten from its place on", () => {
  const { messages, asked } = store();
  messages.put(0, 120, range(0, 120));
  messages.cut(50);
  expect([messages.peek(49), messages.peek(50), messages.peek(100)]).toEqual([message(49), undefined, undefined]);
  messages.get(50, 60);
  expect(asked).toEqual([[BLOCK, 60]]);
});

test("of a long conversation only what was looked at last is held, by number and by size", () => {
  const { messages } = store();
  for (let from = 0; from < 100_000; from += BLOCK) {
    messages.put(from, from + BLOCK, range(from, from + BLOCK));
  }
  expect(messages.held).toBeLessThanOrEqual(24);
  expect(messages.peek(99_999)).toEqual(message(99_999));
  const large = store().messages;
  for (let from = 0; from < 20 * BLOCK; from += BLOCK) {
    large.put(from, from + BLOCK, [message(from, "x".repeat(3 << 20))]);
  }
  expect(large.held).toBeLessThanOrEqual(4);
});
