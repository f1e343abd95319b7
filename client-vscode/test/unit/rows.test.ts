import { beforeEach, expect, test, vi } from "vitest";
import type { Checkpoint } from "timeleap-client";
import { Log } from "../../src/core/sessions/log.js";
import { wholeName } from "../../src/shared/text/happened.js";
import { CheckpointsTree } from "../../src/core/tree/checkpointsTree.js";
import { detailsOfRows } from "../../src/features/details/details.js";
import { dmailFacts, dmailRows } from "../../src/features/dmail/index.js";
import { user } from "../support/vscode.js";

beforeEach(() => user.reset());

/** The tree of a session with that many checkpoints, all of them loaded. */
function treeOf(count: number) {
  const checkpoints: Checkpoint[] = Array.from({ length: count }, (_, index) => {
    const id = count - 1 - index;
    return { id, uid: `c${id}`, messageCount: id * 2, tokenCount: id * 100, createdAt: "2026-01-01T00:00:00Z", preview: `question ${id}` };
  });
  const more = { end: count * 2 };
  const log = new Log({ read: () => Promise.resolve({ checkpoints, messages: [] } as never), total: () => more.end });
  const session = { id: "s", log, state: { pendingDMail: null as unknown, context: { tokenCount: count * 100 } } };
  return { session, log, more, tree: new CheckpointsTree({ shown: session } as never, () => Promise.resolve(true), { rows: [dmailRows], parts: [dmailFacts, detailsOfRows] }) };
}

test("rows that are as they were are the same ones, however many there are", async () => {
  const { tree, log, more } = treeOf(2_000);
  const before = await tree.getChildren();
  log.add({ id: 2_000, uid: "c2000", messageCount: 4_000, tokenCount: 200_000 });
  more.end = 4_002;
  tree.refresh();
  const after = await tree.getChildren();
  expect(after).toHaveLength(2_001);
  // The one that was the newest has a next one now, but ends where it ended.
  expect(after.slice(1).every((node, index) => node === before[index])).toBe(true);
  tree.dispose();
});

test("a row is named by what is told of its span, and only that row is another one then", async () => {
  const { tree, log } = treeOf(3);
  const before = await tree.getChildren();
  log.add({ id: 3, uid: "c3", messageCount: 6, tokenCount: 300 });
  tree.refresh();
  const [unnamed] = await tree.getChildren();
  expect(tree.getTreeItem(unnamed!).label).toBe("Checkpoint #3");
  log.learn("c3", { summary: { kind: "calls", text: "pytest", calls: [{ name: "bash", argument: "cd /repo && pytest -q tests", failed: true }], errors: 1, messages: 2, tokens: 1_400 }, name: "pytest -q tests" });
  tree.refresh();
  const [named, ...rest] = await tree.getChildren();
  expect(tree.getTreeItem(named!)).toMatchObject({ label: "pytest -q tests", iconPath: { id: "error" } });
  expect(tree.getTreeItem(named!).accessibilityInformation!.label).toBe("Checkpoint 3: pytest -q tests, +1.4K tokens, 1 failed");
  expect(rest.every((node, index) => node === before[index])).toBe(true);
  const again = await tree.getChildren();
  expect(again[0]).toBe(named);
  tree.dispose();
});

test("what happens after a checkpoint names it, unless it has a label", async () => {
  const { log } = treeOf(1);
  log.add({ id: 1, uid: "c1", messageCount: 2, tokenCount: 100, label: "mine", name: "mine" });
  log.add({ id: 2, uid: "c2", messageCount: 4, tokenCount: 100, name: "before" });
  log.add({ id: 3, uid: "c3", messageCount: 4, tokenCount: 100, label: "as it was answered" }); // without a name
  await log.spans();
  const summary = { kind: "empty", text: "", messages: 0 } as const;
  log.learn("c1", { summary, name: "what happened" });
  log.learn("c2", { summary });
  log.learn("c3", { summary, name: "what happened" });
  expect((await log.spans()).slice(0, 3).map(({ checkpoint }) => wholeName(checkpoint))).toEqual(["as it was answered", "Checkpoint #2", "mine"]);
});

test("the growth shown is that of the messages which the row opens to", async () => {
  const { tree, more, session } = treeOf(3);
  more.end = 9;
  session.state.context.tokenCount = 1_700;
  const rows = (await tree.getChildren()).map((node) => tree.getTreeItem(node));
  // The newest has what came after it, not what came before.
  expect(rows.map(({ description }) => description)).toEqual([undefined, undefined, undefined]); // it is in the tooltip
  expect(rows.map(({ accessibilityInformation }) => accessibilityInformation!.label)).toEqual([
    "Checkpoint 2: question 2, +5 messages, +1.5K tokens",
    "Checkpoint 1: question 1, +2 messages, +100 tokens",
    "Checkpoint 0: question 0, +2 messages, +100 tokens",
  ]);
  tree.dispose();
});

test("the tooltip has the beginning of the text, the calls with how they ended, and the files that they name", async () => {
  const { tree, log } = treeOf(1);
  const calls = [{ name: "edit", argument: "src/a*b.py" }, { name: "bash", argument: "pytest", failed: true }];
  log.learn("c0", { summary: { kind: "calls", text: "what was <b>said</b>", calls, moreCalls: 7, files: ["src/a*b.py"], errors: 1, messages: 2 } });
  const [row] = await tree.getChildren();
  const { value } = tree.getTreeItem(row!).tooltip as { value: string };
  expect(value).toContain("```\nwhat was <b>said</b>\n```");
  expect(value).toContain("- edit a\\*b\\.py\n- ✗ pytest\n- … and 7 more");
  expect(value).toContain("- src/a\\*b\\.py");
  tree.dispose();
});

test("what the summary has no room for is read when somebody points at the row", async () => {
  const { tree, log } = treeOf(1);
  const whole = `why ${"and how ".repeat(80)}`;
  log.learn("c0", { summary: { kind: "prompt", text: `${whole.slice(0, 199)}…`, messages: 2 } });
  const [row] = await tree.getChildren();
  expect(tree.getTreeItem(row!).tooltip).toBeUndefined();
  vi.spyOn(log, "messages").mockRejectedValueOnce(new Error("the server is away"));
  const value = async (): Promise<string> => ((await tree.resolveTreeItem(row!.item(), row!)).tooltip as { value: string }).value;
  expect(await value()).toContain(`\n${whole.slice(0, 199)}…\n`);
  const read = vi.spyOn(log, "read").mockReturnValue([]);
  vi.spyOn(log, "messages").mockImplementationOnce(() => {
    read.mockReturnValue([{ index: 0, message: { role: "user", content: whole } }]);
    return Promise.resolve([]);
  });
  expect(await value()).toContain(`\n${whole.slice(0, 500)}…\n`);
  tree.dispose();
});

test("a row whose messages or notes have changed is another one with the same id", async () => {
  const { tree, more, session } = treeOf(3);
  const before = await tree.getChildren();
  more.end = 8;
  session.state.pendingDMail = { checkpointId: 0, checkpointUid: "c0", message: "stop" };
  tree.refresh();
  const [dmail, ...after] = await tree.getChildren();
  expect(tree.getTreeItem(dmail!)).toMatchObject({ label: "stop", contextValue: "dmail", description: "D-Mail for “question 0”, not delivered yet" });
  expect(after.map(({ id }) => id)).toEqual(before.map(({ id }) => id));
  expect(after.map((node, index) => node === before[index])).toEqual([false, true, false]);
  expect(tree.getTreeItem(after[2]!).description).toContain("a D-Mail waits");
  tree.dispose();
});
