import { expect, test } from "vitest";
import type { CompactResult } from "timeleap-client";
import { compactionReport, excerpt, scoreLine } from "../../src/features/compact/scorecard.js";

const tally = (found: number, kept: number, ...lost: string[]) => ({ found, kept, lost });

const RESULT = {
  compacted: true,
  head: "h",
  summary: "Fix `a.py`.\n",
  removedMessages: 8,
  preservedMessages: 2,
  tokenCountBefore: 5_000,
  tokenCountAfter: 700,
  scorecard: {
    paths: tally(9, 8, "src/a|b.py"),
    identifiers: tally(30, 10, "split_bill", "`tick`"),
    errors: tally(0, 0),
    todos: tally(1, 1),
    constraints: tally(2, 2),
  },
  pins: { kept: 1, added: ["never touch the API"] },
} as unknown as CompactResult;

test("the report counts what is kept and lost, names what is lost and says how much more there is", () => {
  const { title, blocks } = compactionReport(RESULT);
  expect(blocks).toContainEqual({ kind: "list", items: ["8 messages become one summary, 2 messages stay as they are.", "5K tokens → 700 tokens"] });
  const rows = blocks.flatMap((block) => (block.kind === "table" ? block.rows : []));
  expect(rows.slice(0, 3)).toEqual([["File paths", "9", "8", "1"], ["Names in code", "30", "10", "20"], ["Error messages", "0", "0", "0"]]);
  const lists = blocks.flatMap((block) => (block.kind === "list" && block.title !== undefined ? [[block.title, block.items]] : []));
  expect(lists).toEqual([
    ["Lost: File paths", ["src/a|b.py"]],
    ["Lost: Names in code", ["split_bill", "`tick`", "… and 18 more"]],
    ["Pinned texts: 2", ["never touch the API"]],
  ]);
  expect(blocks.at(-1)).toEqual({ kind: "markdown", text: "Fix `a.py`." });
  expect(title).toBe("What Is Kept");
});

test("in one line it leaves out what was not there", () => {
  expect(scoreLine(RESULT)).toBe("Kept: File paths 8 / 9, Names in code 10 / 30, To-dos 1 / 1, What you demanded 2 / 2, Pinned texts 2");
  expect(scoreLine({})).toBeUndefined();
});

test("a server that counts nothing has a report all the same", () => {
  const { scorecard, pins, ...bare } = RESULT;
  expect(scorecard && pins).toBeTruthy();
  expect(compactionReport(bare).blocks.map(({ kind }) => kind)).toEqual(["list", "markdown"]);
});

test("a summary begins with the names of its sections, not with their tags; code in it stays", () => {
  const summary = "<current_focus>\nFix the <b> tag.\n</current_focus>\n\n<environment>\nnone\n</environment>\n";
  expect(excerpt(summary, 100)).toBe("Current focus: Fix the <b> tag. Environment: none");
  expect(excerpt(summary, 20)).toHaveLength(20);
});
