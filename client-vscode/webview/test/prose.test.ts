import { expect, test } from "vitest";
import { blocksOf } from "../src/prose.js";

const kinds = (text: string): string[] => blocksOf(text).map(({ kind }) => kind);

const PYTEST = `============================= test session starts ==============================
collected 3 items

tests/test_a.py .F.                                                      [100%]

=================================== FAILURES ===================================
__________________________________ test_split __________________________________

    def test_split():
>       assert split(10, 3) == [4, 3, 3]
E       assert [3, 3, 3] == [4, 3, 3]

tests/test_a.py:4: AssertionError
=========================== short test summary info ============================
FAILED tests/test_a.py::test_split - assert [3, 3, 3] == [4, 3, 3]
========================= 1 failed, 2 passed in 0.02s ==========================`;

test.each([
  ["a test run", PYTEST],
  ["a traceback", 'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\n    f(*args)\nKeyError: \'__init__\''],
  ["a stack of JavaScript", "TypeError: x is not a function\n    at run (/a/b.js:3:4)\n    at Object.<anonymous> (/a/c.js:1:1)"],
  ["a log", "2026-01-02 10:11:12 INFO started\n2026-01-02 10:11:13 ERROR * not * found"],
  ["a log with levels", "[INFO] one\n[WARN] two __x__"],
  ["a compiler", "error[E0382]: borrow of moved value\n --> src/main.rs:4:5\n  |\n4 |     x"],
  ["a shell", "$ git status\nOn branch main"],
  ["columns", "NAME    READY   STATUS\nweb-1   1/1     Running\nweb-2   0/1     CrashLoopBackOff"],
  ["a diff", "diff --git a/x b/x\n@@ -1,2 +1,2 @@\n-# old\n+# new"],
  ["colours", "\u001b[31mFAIL\u001b[0m src/a.test.ts\n  * one"],
  ["a listing", "total 8\n-rw-r--r-- 1 me me 12 a.py\n-rw-r--r-- 1 me me 12 b_c_d.py"],
])("%s that was pasted is shown as it was written", (_, text) => {
  expect(blocksOf(text)).toEqual([{ kind: "output", text }]);
  expect(kinds(`Why does this fail?\n\n${text}\n\nPlease mend it.`)).toEqual(["words", "output", "words"]);
});

test.each([
  ["words", "Please make `split` work in whole cents, and keep the API."],
  ["several paragraphs", "First this.\n\nThen that: see a.py:3 for the reason."],
  ["a list", "- one  and\n- two  more\n\n1. three"],
  ["a table", "| name | value |\n|---|---|\n| b   |  3  |"],
  ["headings and quotes", "# Plan\n\n> quoted\n\n## More"],
  ["a fence with a log in it", "Look:\n\n```\n2026-01-02 10:11:12 ERROR x\n\n2026-01-02 10:11:13 ERROR y\n```"],
  ["Chinese", "请把除法改成整数运算。\n\n谢谢！"],
])("%s are Markdown", (_, text) => {
  expect(new Set(kinds(text))).toEqual(new Set(["words"]));
});

test("nothing of a text is lost", () => {
  const text = `Why?\n\n${PYTEST}\n\n\nAnd this:\n\n- a\n- b`;
  const bare = (one: string): string => one.replace(/\s+/gu, " ");
  expect(bare(blocksOf(text).map((block) => block.text).join("\n"))).toBe(bare(text));
});

test("a log of 5 000 lines takes a moment", () => {
  const begun = performance.now();
  expect(kinds(Array.from({ length: 5_000 }, (_, line) => `2026-01-02 10:11:12 INFO line ${line}   ${"x ".repeat(20)}`).join("\n"))).toEqual(["output"]);
  expect(performance.now() - begun).toBeLessThan(5_000);
});
