import { beforeEach, expect, test } from "vitest";
import type { Checkpoint } from "timeleap-client";
import type { SpanSummary } from "../../src/sessions/spanSummary.js";
import { age } from "../../src/text/format.js";
import { callInWords, checkpointName, firstWords, happenedIcon, rowFacts, rowName } from "../../src/text/happened.js";
import { env, user } from "../support/vscode.js";

beforeEach(() => {
  user.reset();
  env.language = "en";
});

const NOW = Date.parse("2026-01-01T12:00:00Z");
const before = (minutes: number): string => new Date(NOW - minutes * 60_000).toISOString();

function of(summary: Partial<SpanSummary>, more: Partial<Checkpoint> = {}): Checkpoint {
  const whole: SpanSummary = { kind: "text", text: "", messages: 1, ...summary };
  return { id: 7, uid: "c7", messageCount: 0, tokenCount: 0, ...more, ...{ summary: whole } };
}

test.each([
  ["short", "short"],
  ["I forgot the imports at the top of the test file.", "I forgot the imports…"],
  ["two\nlines,  with   blanks", "two lines, with blanks"],
  ["a sentence, which goes on and on", "a sentence, which goes…"],
  ["averylongidentifierwithoutanyblank", "averylongidentifierwi…"],
  ["fix averylongidentifierwithoutanyblank", "fix averylongidentifi…"],
  ["修复测试文件顶部缺少的导入语句并重新运行全部测试用例", "修复测试文件顶部缺少的导入语句并重新运行全…"],
  ["x".repeat(20) + "😀😀", "x".repeat(20) + "…"],
])("of %j a row shows %j", (text, shown) => {
  expect(firstWords(text)).toBe(shown);
  expect(firstWords(text).length).toBeLessThanOrEqual(23);
});

test.each([
  [{ name: "bash", argument: "cd /home/me/project && python -m pytest tests/test_bill.py" }, "python -m pytest…"],
  [{ name: "run_shell_command", argument: "set -euo pipefail; make test" }, "make test"],
  [{ name: "run", argument: "PYTHONPATH=src DEBUG=1 pytest -x" }, "pytest -x"],
  [{ name: "bash", argument: "cd /tmp" }, "cd /tmp"],
  [{ name: "edit", argument: "src/billing/shares.py" }, "edit shares.py"],
  [{ name: "edit", argument: "C:\\work\\shares.py" }, "edit shares.py"],
  [{ name: "grep", argument: "round half" }, "grep round half"],
  [{ name: "think" }, "think"],
])("a call %j is named %j", (call, words) => {
  expect(callInWords(call)).toBe(words);
});

test("a row is named by its label, else by what happened: the prompt, the call that failed, the text", () => {
  expect(rowName(of({ kind: "prompt", text: "Split the bill among us, with the tip" }))).toBe("Split the bill among…");
  const calls = [{ name: "read", argument: "src/a.py" }, { name: "bash", argument: "pytest -q", failed: true }];
  expect(rowName(of({ kind: "calls", text: "", calls, errors: 1 }))).toBe("pytest -q");
  expect(rowName(of({ kind: "calls", text: "", calls: calls.slice(0, 1) }))).toBe("read a.py");
  expect(rowName(of({ kind: "compacted", text: "Previous context" }))).toBe("Compacted");
  expect(rowName(of({ kind: "empty" }))).toBe("Checkpoint #7");
  expect(rowName(of({ kind: "text", text: "Done." }, { label: "before the refactoring of shares" }))).toBe("before the refactoring…");
  expect(checkpointName(of({ kind: "text", text: "Done." }, { label: "before the refactoring of shares" }))).toBe("before the refactoring of shares");
  // The preview is what servers without summaries have.
  expect(rowName({ id: 7, uid: "c7", messageCount: 0, tokenCount: 0, preview: "what follows" })).toBe("what follows");
});

test("behind the name stand how long ago, what it took and what failed; each in few characters", () => {
  const at = (minutes: number): Checkpoint => of({}, { createdAt: before(minutes) });
  expect(rowFacts(at(2), { messages: 4, tokens: 1_400 }, 1, 0, NOW)).toBe("1 failed 2m +1.4K");
  expect(rowFacts(at(0), { messages: 1, tokens: undefined }, 0, 3, NOW)).toBe("now +1 message 3 files");
  expect(rowFacts(at(60 * 24 * 60), { messages: 4, tokens: -52_000 }, 0, 0, NOW)).toBe("60d −52K");
  expect(rowFacts(of({}), { messages: 0, tokens: 0 }, 0, 0, NOW)).toBe("");
  expect([age(before(61), NOW), age("no time", NOW)]).toEqual(["1h", ""]);
});

test("what failed is seen by its form and its colour, a label by its own icon", () => {
  expect(happenedIcon(of({ kind: "calls", errors: 2 }))).toEqual({ icon: "error", color: "list.errorForeground" });
  expect(happenedIcon(of({ kind: "calls" }))).toEqual({ icon: "tools" });
  expect(happenedIcon(of({ kind: "prompt" }))).toEqual({ icon: "account" });
  expect(happenedIcon(of({ kind: "prompt", errors: 1 }, { label: "mine" }))).toEqual({ icon: "bookmark", color: "list.errorForeground" });
  expect(happenedIcon(of({}, { label: "D-Mail from other" })).icon).toBe("mail-read");
});
