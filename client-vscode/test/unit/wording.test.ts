import { expect, test } from "vitest";
import type { Message } from "timeleap-client";
import { messageAsMarkdown, rangeInMarkdown } from "../../src/shared/text/markdown.js";
import { rangeAt } from "../../src/shared/text/position.js";
import { piecesOf } from "../../src/shared/text/wording.js";

const MESSAGE = {
  role: "assistant",
  content: [
    { type: "think", think: "Hm.  \n\nLet me see." },
    { type: "text", text: "First, the *tests*.\n" },
    { type: "image_url", image_url: { url: "https://example.com/a.png" } },
    { type: "text", text: "Then the code." },
  ],
  tool_calls: [
    { id: "1", type: "function", function: { name: "run", arguments: '{"command": "pytest"}' } },
    { id: "2", type: "function", function: { name: "stop", arguments: null } },
  ],
} as unknown as Message;

/** The message's text, as the protocol puts it together. */
const TEXT = 'First, the *tests*.\nThen the code.\nHm.  \n\nLet me see.\nrun\n{"command": "pytest"}\nstop';

test("the text of a message is its texts, then its thoughts, then its calls", () => {
  for (const { start, text } of piecesOf(MESSAGE)) {
    expect(TEXT.slice(start, start + text.length)).toBe(text);
  }
  expect(piecesOf(MESSAGE).map(({ kind, of }) => `${kind} ${of}`)).toEqual(["text 1", "text 3", "think 0", "name 0", "arguments 0", "name 1"]);
});

test.each(["First", "*tests*", "Then", "code.", "Hm.", "Let me", "run", '"pytest"', "stop"])("%s is found in the document of the message", (words) => {
  const from = TEXT.indexOf(words);
  const [start, end] = rangeInMarkdown(3, MESSAGE, [from, from + words.length]);
  expect(messageAsMarkdown(3, MESSAGE).slice(start, end)).toBe(words);
});

test.each([
  ["a tool's output, which is fenced", { role: "tool", content: "a\n```\nError: no" }],
  ["a plain text", { role: "user", content: "a\nError: no" }],
])("%s", (_, message) => {
  const from = message.content.indexOf("Error");
  const [start, end] = rangeInMarkdown(0, message, [from, from + 9]);
  expect(messageAsMarkdown(0, message).slice(start, end)).toBe("Error: no");
});

test("what reaches over several parts is selected from its beginning to its end", () => {
  const [start, end] = rangeInMarkdown(3, MESSAGE, [TEXT.indexOf("*tests*"), TEXT.indexOf("code") + 4]);
  expect(messageAsMarkdown(3, MESSAGE).slice(start, end)).toMatch(/^\*tests\*[^]*Then the code$/);
});

test("a range that is not there is somewhere in the document", () => {
  const [start, end] = rangeInMarkdown(0, { role: "user", content: "short" }, [100, 200]);
  expect(start).toBeLessThanOrEqual(end);
  expect(end).toBeLessThanOrEqual(messageAsMarkdown(0, { role: "user", content: "short" }).length);
  expect(rangeInMarkdown(0, { role: "user" }, [0, 3])).toEqual([0, 0]);
});

test("lines are counted whatever ends them", () => {
  expect(rangeAt("a\r\nbc\rd\nefg", [4, 9])).toEqual({ start: { line: 1, character: 1 }, end: { line: 3, character: 1 } });
  expect(rangeAt("", [0, 0])).toEqual({ start: { line: 0, character: 0 }, end: { line: 0, character: 0 } });
});
