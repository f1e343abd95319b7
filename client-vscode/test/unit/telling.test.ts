import { expect, test } from "vitest";
import { labelsOf, painted, PAINTED, type Named } from "../../src/shared/text/telling.js";
import names from "../support/names.json" with { type: "json" };
import { painted as paintedPixels } from "../support/widths.js";

const rows = (...names: readonly string[]): Named[] => names.map((name, at) => ({ name, id: names.length - 1 - at }));
const labels = (...names: readonly string[]): string[] => labelsOf(rows(...names));

/** Whether the rows of every window of 20 can be told apart by what is painted of them. */
function tells(many: readonly Named[]): boolean {
  const seen = labelsOf(many).map((label) => painted(label));
  return seen.every((label, at) => !seen.slice(at + 1, at + 20).includes(label));
}

test("a name that can be seen whole is shown whole", () => {
  expect(labels("pytest -q", "pytest -x", "Edit src/app.py")).toEqual(["pytest -q", "pytest -x", "Edit src/app.py"]);
});

test("what a long name shares with rows in sight is left out, but for its first word", () => {
  expect(labels("curl -X POST -F name=x -F file=@a.jpg http://host", "curl -X POST -F name=x -F file=@b.pl http://host")).toEqual(["curl … file=@a.jpg http://host", "curl … file=@b.pl http://host"]);
  expect(labels("Edit src/very/long/path/to/first.py", "Edit src/very/long/path/to/second.py")).toEqual(["Edit …/first.py", "Edit …/second.py"]);
  expect(labels("Please look at the tests of the parser again", "Please look at the tests of the printer again", "a third")).toEqual(["Please … parser again", "Please … printer again", "a third"]);
});

test("rows of the same name have their numbers in front", () => {
  expect(labels("go on", "go on", "stop")).toEqual(["#2 go on", "#1 go on", "stop"]);
});

test("a label is never cut, however long it is, and no half of a character begins it", () => {
  const long = `fix ${"word ".repeat(40)}end`;
  expect(labels(long, "other")).toEqual([long, "other"]);
  const smile = "x".repeat(30) + "😀";
  for (const label of labels(`${smile}a`, `${smile}b`, "x".repeat(30) + "😁c")) {
    expect(new TextDecoder().decode(new TextEncoder().encode(label))).toBe(label);
  }
});

test.each<[string, (at: number) => string]>([
  ["prompts of one word", () => "continue"],
  ["uploads", (at) => `curl -X POST -F "name=report" -F file=@picture-${String(at)}.jpg https://host/upload`],
  ["edits of deep files", (at) => `Edit /home/somebody/projects/shop/packages/server/src/features/part${String(at % 7)}/index.ts`],
  ["commands that differ at their end", (at) => `python -m pytest tests/integration/test_everything.py --verbose -k case_${String(at)}`],
  ["one long word", (at) => `${"a".repeat(60)}${String(at)}`],
  ["Chinese", (at) => `请继续修复测试文件顶部缺少的导入语句并重新运行全部测试用例第${String(at)}次`],
  ["all kinds in turn", (at) => ["pytest -q", "Edit src/app.py", `git commit -m "Fix the parser of the numbers, part ${String(at)}"`, "continue"][at % 4]!],
])("20 rows are told apart in a narrow side bar: %s", (_, name) => {
  expect(tells(Array.from({ length: 100 }, (_, at) => ({ name: name(100 - at), id: 100 - at })))).toBe(true);
});

test("ten thousand rows take little time, and what is painted fits", () => {
  const many = Array.from({ length: 10_000 }, (_, at) => ({ name: `python -m pytest tests/test_everything.py -k case_${String(at)}`, id: at }));
  expect(tells(many.slice(0, 1_000))).toBe(true);
  expect(labelsOf(many)).toHaveLength(10_000);
  expect(painted("x".repeat(50))).toHaveLength(PAINTED);
});

test.each(["continue", "go ".repeat(400).trim(), "继续", "continue ".repeat(40) + "now"])("prompts that repeat one word are told apart as they are painted: %.20s", (prompt) => {
  const labels = labelsOf(Array.from({ length: 60 }, (_, id) => ({ name: prompt, id })));
  const windows = Array.from({ length: 41 }, (_, at) => labels.slice(at, at + 20).map((label) => paintedPixels(label)));
  expect(windows.filter((rows) => new Set(rows).size < rows.length)).toEqual([]);
});

/** Names of the checkpoints, newest first, of eleven runs of agents that were published with SWE-agent (MIT licence). */
const RUNS: Record<string, readonly string[]> = names;

/** How many windows of 20 rows have no two rows that are painted alike, among all. */
function toldApart(rows: readonly string[]): number {
  const seen = labelsOf(rows.map((name, at) => ({ name, id: rows.length - at }))).map((label) => paintedPixels(label));
  const windows = Array.from({ length: Math.max(1, seen.length - 19) }, (_, at) => seen.slice(at, at + 20));
  return windows.filter((shown) => new Set(shown).size === shown.length).length / windows.length;
}

test("in a side bar of 300 pixels the rows of real runs are told apart as they are painted, one run after the other as well", () => {
  expect(Object.entries(RUNS).filter(([, rows]) => toldApart(rows) < 0.95)).toEqual([]);
  expect(toldApart(Object.values(RUNS).flat())).toBeGreaterThanOrEqual(0.95);
});
