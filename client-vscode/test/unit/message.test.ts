import { expect, test } from "vitest";
import type { HistoryMessage, Message } from "timeleap-client";
import { messageAsJson, messageAsMarkdown } from "../../src/features/page/copies.js";
import { roleName } from "../../src/shared/text/roles.js";
import { argumentsOf, callsOf, gistOf, rowsOf, textOf, type Row } from "../../src/shared/text/message.js";

const entries = (...messages: unknown[]): HistoryMessage[] => messages.map((message, index) => ({ index, message: message as Message }));
const call = (id: string, name = "run", args = "{}"): unknown => ({ id, type: "function", function: { name, arguments: args } });
const brief = (row: Row): string => (row.kind === "message" ? String(row.entry.index) : `${row.call.id}=${row.result?.index ?? "?"}`);
const rows = (...messages: unknown[]): string[] => rowsOf(entries(...messages)).map(brief);

test("a call and its result are one row, where the call stood", () => {
  expect(rows({ role: "user", content: "go" }, { role: "assistant", content: "on it", tool_calls: [call("a")] }, { role: "tool", tool_call_id: "a", content: "done" })).toEqual([
    "0",
    "1",
    "a=2",
  ]);
});

test("a message that holds nothing but calls has no row of its own", () => {
  expect(rows({ role: "assistant", content: "", tool_calls: [call("a"), call("b")] }, { role: "tool", tool_call_id: "b", content: "2" }, { role: "tool", tool_call_id: "a", content: "1" })).toEqual([
    "a=2",
    "b=1",
  ]);
});

test("a call that waits says so; a result without a call keeps its own row", () => {
  expect(rows({ role: "assistant", content: null, tool_calls: [call("a")] }, { role: "tool", tool_call_id: "other", content: "x" })).toEqual(["a=?", "1"]);
});

test("an id that is used again belongs to the latest call", () => {
  const asking = { role: "assistant", tool_calls: [call("a")] };
  const answering = { role: "tool", tool_call_id: "a", content: "x" };
  expect(rows(asking, answering, asking, answering)).toEqual(["a=1", "a=3"]);
});

test.each([
  ["null", null],
  ["a number", 3],
  ["an object", {}],
  ["calls without a function", [{ id: "a" }, null, "x", { function: null }, { function: { name: 3 } }]],
])("calls that are %s are none", (_, tool_calls) => {
  expect(callsOf({ role: "assistant", tool_calls } as unknown as Message)).toEqual([]);
});

test("the gist is text, else a thought, else what kind of part there is", () => {
  const gist = (content: unknown): string => gistOf({ role: "user", content } as Message);
  expect(gist("hello")).toBe("hello");
  expect(gist([{ type: "think", think: "hmm" }, { type: "text", text: "hi" }])).toBe("hi");
  expect(gist([{ type: "think", think: "hmm" }])).toBe("hmm");
  expect(gist([{ type: "image_url", image_url: { url: "data:image/png;base64,xyz" } }])).toBe("[image_url]");
  expect(gist([{ type: "new_kind" }])).toBe("[new_kind]");
  expect([gist(""), gist(null), gist([]), gist(undefined)]).toEqual(["", "", "", ""]);
});

test("text leaves thoughts and media out", () => {
  expect(textOf({ role: "user", content: [{ type: "text", text: "a" }, { type: "think", think: "no" }, { type: "text", text: "b" }] })).toBe("a\nb");
});

test("arguments are read as pairs where they are a JSON object, else as they are", () => {
  const read = (args: unknown): string => argumentsOf({ id: "a", function: { name: "f", arguments: args } } as never);
  expect(read('{"path": "a.py", "lines": [1, 2]}')).toBe("path: a.py, lines: [1, 2]");
  expect(read('{"id": 12345678901234567890, "rate": 1.10}')).toBe("id: 12345678901234567890, rate: 1.10");
  expect(read('{"broken')).toBe('{"broken');
  expect(read("[1]")).toBe("[1]");
  expect([read(null), read(undefined)]).toEqual(["", ""]);
});

test("as Markdown a tool's output is fenced, by a fence that it cannot close", () => {
  const text = messageAsMarkdown(7, { role: "tool", content: "see\n````\n# no heading\n````" }, roleName);
  expect(text).toBe("## 7 · Tool\n\n`````\nsee\n````\n# no heading\n````\n`````\n");
});

test("as Markdown thoughts are quoted, calls shown with their arguments, media named", () => {
  const text = messageAsMarkdown(0, {
    role: "assistant",
    content: [{ type: "think", think: "one\n\ntwo" }, { type: "text", text: "Answer" }, { type: "image_url", image_url: { url: "data:xxxx" } }],
    tool_calls: [call("a", "read", '{"a":1}')],
  } as Message, roleName);
  expect(text).toBe('## 0 · Assistant\n\n> one\n> \n> two\n\nAnswer\n\n[image_url]\n\n**read**\n\n```json\n{"a":1}\n```\n');
});

test("as JSON it is what the server wrote", () => {
  expect(messageAsJson('{"jsonrpc":"2.0","result":{"messages":[{"index":3,"message":{"role":"user","id":12345678901234567890}}]}}')).toBe('{\n  "role": "user",\n  "id": 12345678901234567890\n}\n');
  expect(messageAsJson("{}")).toBe("\n");
});
