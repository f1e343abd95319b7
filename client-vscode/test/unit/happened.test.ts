import { beforeEach, expect, test } from "vitest";
import type { Checkpoint } from "timeleap-client";
import type { SpanSummary } from "../../src/shared/spanSummary.js";
import { age } from "../../src/shared/text/format.js";
import { callInWords, checkpointName, firstWords, happenedIcon, wholeName } from "../../src/shared/text/happened.js";
import { badgeOf, badgeUri } from "../../src/features/details/badges.js";
import { env, Uri, user } from "../support/vscode.js";

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

test("the server names a checkpoint; of one that does not, the label or the preview is the name", () => {
  const long = "split the bill among us, with the tip, and tell everybody what they have to pay";
  expect(wholeName(of({}, { name: long, label: "no", preview: "no" }))).toBe(long);
  expect(checkpointName(of({}, { name: long }))).toBe("split the bill among us, with the tip, and tell…");
  expect(wholeName({ id: 7, uid: "c7", messageCount: 0, tokenCount: 0, preview: "what\nfollows" })).toBe("what follows");
  expect(wholeName({ id: 7, uid: "c7", messageCount: 0, tokenCount: 0, label: "mine", preview: "what follows" })).toBe("mine");
  expect(wholeName(of({ kind: "empty" }))).toBe("Checkpoint #7");
});

test("a badge says what failed and how many files changed; a row without either has none", () => {
  const badge = (failed: number, changed: number): unknown => badgeOf(badgeUri("s/c7", { failed, changed })!);
  expect(badgeUri("s/c7", { failed: 0, changed: 0 })).toBeUndefined();
  expect(badge(2, 0)).toMatchObject({ badge: "✗", tooltip: "2 failed" });
  expect(badge(0, 3)).toMatchObject({ badge: "3", tooltip: "3 files changed" });
  expect(badge(1, 1)).toMatchObject({ badge: "✗1", tooltip: "1 failed, 1 file changed" });
  expect(badge(0, 12)).toMatchObject({ badge: "+", tooltip: "12 files changed" });
  expect(badgeOf(Uri.file("/w/a.py") as never)).toBeUndefined();
});

test("an age takes few characters", () => {
  expect([age(before(2), NOW), age(before(61), NOW), age("no time", NOW)]).toEqual(["2m", "1h", ""]);
});

test("what failed is seen by its form and its colour, a label by its own icon", () => {
  expect(happenedIcon(of({ kind: "calls", errors: 2 }))).toEqual({ icon: "error", color: "list.errorForeground" });
  expect(happenedIcon(of({ kind: "calls" }))).toEqual({ icon: "tools" });
  expect(happenedIcon(of({ kind: "prompt" }))).toEqual({ icon: "account" });
  expect(happenedIcon(of({ kind: "prompt", errors: 1 }, { label: "mine" }))).toEqual({ icon: "bookmark", color: "list.errorForeground" });
  expect(happenedIcon(of({}, { label: "D-Mail from other" })).icon).toBe("mail-read");
});
