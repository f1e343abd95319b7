import { expect, test } from "vitest";
import type { Message } from "timeleap-client";
import { failed, MOST_MESSAGE, MOST_TEXT, shownMessage } from "../../src/features/page/shown.js";

const shown = (message: object): ReturnType<typeof shownMessage> => shownMessage({ index: 7, message: message as Message });
const image = (url: string): object => ({ type: "image_url", image_url: { url } });
const tool = (content: unknown, more: object = {}): Message => ({ role: "tool", content, tool_call_id: "1", ...more }) as Message;

test("a long text is cut, and says how long it is; never within a character", () => {
  const { parts } = shown({ role: "user", content: "x".repeat(10 << 20) });
  expect(parts).toEqual([{ kind: "text", text: "x".repeat(MOST_TEXT), cut: 10 << 20 }]);
  const [part] = shown({ role: "user", content: `${"x".repeat(MOST_TEXT - 1)}😀y` }).parts;
  expect(part).toMatchObject({ text: "x".repeat(MOST_TEXT - 1), cut: MOST_TEXT + 2 });
});

test("a message has a bounded size, however many parts and calls it has", () => {
  const call = { id: "1", type: "function", function: { name: "n".repeat(1_000), arguments: "a".repeat(100_000) } };
  const result = shown({ role: "assistant", content: Array.from({ length: 5_000 }, () => ({ type: "text", text: "t".repeat(10_000) })), tool_calls: Array.from({ length: 1_000 }, () => call) });
  expect(result.calls).toHaveLength(1_000);
  expect(JSON.stringify(result).length).toBeLessThan(MOST_MESSAGE * 2);
});

test("only pictures that are in the message are pictures, and only in formats that hold no script", () => {
  const urls = ["https://harm.invalid/a.png", "data:image/svg+xml;base64,PHN2Zy8+", "data:text/html;base64,AAAA", "data:image/png,raw", 'data:image/png;base64,AA" onerror="x', "file:///a.png", "DATA:image/png;base64,AAAA"];
  expect(shown({ role: "user", content: urls.map(image) }).parts.map(({ kind }) => kind)).toEqual(["other", "other", "other", "other", "other", "other", "other"]);
  expect(shown({ role: "user", content: [image("data:image/png;base64,AAAA")] }).parts).toEqual([{ kind: "picture", url: "data:image/png;base64,AAAA" }]);
  expect(shown({ role: "user", content: [image(`data:image/png;base64,${"A".repeat(5 << 20)}`)] }).parts[0]!.kind).toBe("other");
});

test("whatever form a message has, it is shown", () => {
  for (const message of [{}, { role: 5 }, { role: "user", content: 5 }, { role: "user", content: [{ type: "harm", x: 1 }] }, { role: "assistant", tool_calls: [{ function: { name: "f" } }, null, { function: { name: "g", arguments: { a: 1 } } }] }]) {
    expect(() => shown(message)).not.toThrow();
  }
  expect(shown({ role: "user", content: [{ type: "harm", x: 1 }] }).parts).toEqual([{ kind: "other", type: "harm", text: '{"type":"harm","x":1}' }]);
  expect(JSON.stringify(shown({ role: "user", content: [{ type: "harm", x: "y".repeat(1 << 20) }] })).length).toBeLessThan(10_000);
  expect(shown({ role: "assistant", tool_calls: [{ function: { name: "g", arguments: { a: 1 } } }] }).calls).toEqual([{ id: "", name: "g", given: '{"a":1}' }]);
});

test("a failure is told by its mark, by how the answer begins, or by how the program ended", () => {
  for (const content of ["Error: no such file", "<system>ERROR: x</system>", "Traceback (most recent call last):\n", "out\nexit code: 2", "Exit status 127", "..F\nFAILED tests/a.py\n", "E  x\n1 error in 0.05s", "== 1 failed, 2 passed in 1s ==", [{ type: "text", text: "ValueError: bad" }]]) {
    expect([content, failed(tool(content))]).toEqual([content, true]);
  }
  for (const content of ["", "25 passed in 0.09s", "exit code: 0", "no errors", "0 failed, 3 passed", "the error handling is in a.py", "errors.py\nmain.py"]) {
    expect([content, failed(tool(content))]).toEqual([content, false]);
  }
  expect([failed(tool("fine", { is_error: true })), failed(tool("Error: x", { is_error: false })), failed({ role: "user", content: "Error: x" })]).toEqual([true, false, false]);
});
