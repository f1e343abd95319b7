import { expect, test } from "vitest";
import { changed, editsOf, gistOf, membersIn } from "../src/edits.js";

const marks = (lines: readonly { mark: string; text: string }[]): string[] => lines.map(({ mark, text }) => `${{ same: " ", removed: "-", added: "+" }[mark]!}${text}`);

test("an edit shows the lines that change, with some around them", () => {
  const before = Array.from({ length: 30 }, (_, line) => `line ${line}`);
  const after = before.with(15, "changed");
  expect(marks(changed(before.join("\n"), after.join("\n")))).toEqual([" ⋯", " line 12", " line 13", " line 14", "-line 15", "+changed", " line 16", " line 17", " line 18", " ⋯"]);
});

test("a large edit is what goes and what comes, in no time", () => {
  const text = (seed: number): string => Array.from({ length: 30_000 }, (_, line) => `${line * seed}`).join("\n");
  const lines = changed(text(3), text(7));
  expect(lines.filter(({ mark }) => mark === "removed")).toHaveLength(30_000);
  expect(lines.filter(({ mark }) => mark === "added")).toHaveLength(30_000);
});

test("the names that agents give their edits are known", () => {
  const one = { path: "a.py", lines: [{ mark: "removed", text: "a" }, { mark: "added", text: "b" }] };
  expect(editsOf('{"path":"a.py","old_string":"a","new_string":"b"}')).toEqual([one]);
  expect(editsOf('{"file_path":"a.py","old_str":"a","new_str":"b"}')).toEqual([one]);
  expect(editsOf('{"path":"a.py","edits":[{"old":"a","new":"b"},{"oldText":"a","newText":"b"}]}')).toEqual([one, one]);
  expect(marks(editsOf('{"patch":"--- a\\n+++ b\\n@@ -1 +1 @@\\n-x\\n+y\\n z"}')![0]!.lines)).toEqual([" --- a", " +++ b", " @@ -1 +1 @@", "-x", "+y", "  z"]);
});

test("what is no edit is none", () => {
  for (const given of ["", "[]", "null", "{", '{"old_string":"a"}', '{"edits":[]}', '{"edits":[null]}', '{"edits":[{"old":"a"}]}', '{"patch":5}']) {
    expect([given, editsOf(given)]).toEqual([given, undefined]);
  }
});

test("arguments are read member by member, numbers as they are written", () => {
  expect(membersIn('{"a":"x\\ny","n":12345678901234567890,"o":{"k":[1]}}')).toEqual([["a", "x\ny"], ["n", "12345678901234567890"], ["o", '{\n  "k": [\n    1\n  ]\n}']]);
  expect([membersIn("{broken"), membersIn("[1]"), membersIn("")]).toEqual([undefined, undefined, undefined]);
});

test("a call is told by its command or its path, else by what it has", () => {
  expect([gistOf('{"timeout":5,"command":"pytest\\n -q"}'), gistOf('{"path":"a.py","text":"x"}'), gistOf('{"z":"last"}'), gistOf("plain\ntext")]).toEqual(["pytest -q", "a.py", "last", "plain text"]);
});
