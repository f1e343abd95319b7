import { beforeEach, expect, test, vi } from "vitest";
import type { Checkpoint } from "timeleap-client";
import { Log } from "../../src/core/sessions/log.js";
import { wholeName } from "../../src/shared/text/happened.js";
import { CheckpointsTree } from "../../src/core/tree/checkpointsTree.js";
import type { TreeNode } from "../../src/core/tree/node.js";
import { detailsOfRows } from "../../src/features/details/details.js";
import { dmailFacts, dmailRows } from "../../src/features/dmail/index.js";
import { messagesOfRows } from "../../src/features/messages/index.js";
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

/** What can be seen and heard of rows. */
const looks = (tree: CheckpointsTree, rows: readonly TreeNode[]): string[] => rows.map((row) => JSON.stringify(Object.assign({}, tree.getTreeItem(row), { command: undefined })));

test("rows that are as they were look the same and keep their ids, however many there are", async () => {
  const { tree, log, more } = treeOf(2_000);
  const before = looks(tree, await tree.getChildren());
  log.add({ id: 2_000, uid: "c2000", messageCount: 4_000, tokenCount: 200_000 });
  more.end = 4_002;
  tree.refresh();
  const after = looks(tree, await tree.getChildren());
  expect(after).toHaveLength(2_001);
  // The one that was the newest has a next one now, but ends where it ended.
  expect(after.slice(1)).toEqual(before);
  tree.dispose();
});

test("a row is named by what is told of its span, and only that row looks different then", async () => {
  const { tree, log } = treeOf(3);
  const before = looks(tree, await tree.getChildren());
  log.add({ id: 3, uid: "c3", messageCount: 6, tokenCount: 300 });
  tree.refresh();
  const [unnamed] = await tree.getChildren();
  expect(tree.getTreeItem(unnamed!).label).toBe("Checkpoint #3");
  log.learn("c3", { summary: { kind: "calls", text: "pytest", calls: [{ name: "bash", argument: "cd /repo && pytest -q tests", failed: true }], errors: 1, messages: 2, tokens: 1_400 }, name: "pytest -q tests" });
  tree.refresh();
  const [named, ...rest] = await tree.getChildren();
  expect(tree.getTreeItem(named!)).toMatchObject({ label: "pytest -q tests", iconPath: { id: "error" } });
  expect(tree.getTreeItem(named!).accessibilityInformation!.label).toBe("Checkpoint 3: pytest -q tests, +1.4K tokens, 1 failed");
  expect(looks(tree, rest)).toEqual(before);
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

test("the tooltip has the beginning of the text, and the calls with how they ended", async () => {
  const { tree, log } = treeOf(1);
  const calls = [{ name: "edit", argument: "src/a*b.py" }, { name: "bash", argument: "pytest", failed: true }];
  log.learn("c0", { summary: { kind: "calls", text: "what was <b>said</b>", calls, moreCalls: 7, files: ["src/a*b.py"], errors: 1, messages: 2 } });
  const [row] = await tree.getChildren();
  const { value } = tree.getTreeItem(row!).tooltip as { value: string };
  expect(value).toContain("```\nwhat was <b>said</b>\n```");
  expect(value).toContain("- edit a\\*b\\.py\n- ✗ pytest\n- … and 7 more");
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

test("a row whose messages or notes have changed looks different and has the same id", async () => {
  const { tree, more, session } = treeOf(3);
  const before = await tree.getChildren();
  const looked = looks(tree, before);
  more.end = 8;
  session.state.pendingDMail = { checkpointId: 0, checkpointUid: "c0", message: "stop" };
  tree.refresh();
  const [dmail, ...after] = await tree.getChildren();
  expect(tree.getTreeItem(dmail!)).toMatchObject({ label: "stop", contextValue: "dmail", description: "D-Mail for “question 0”, not delivered yet" });
  expect(after.map(({ id }) => id)).toEqual(before.map(({ id }) => id));
  expect(looks(tree, after).map((look, index) => look === looked[index])).toEqual([false, true, false]);
  expect(tree.getTreeItem(after[2]!).description).toContain("D-Mail");
  tree.dispose();
});

test("a row of a call says to those who hear it that it is one, and how it ended", async () => {
  const { session, log } = treeOf(1);
  const call = { id: "1", function: { name: "bash", arguments: "pytest -q" } };
  const messages = [
    { index: 0, message: { role: "assistant", content: "", tool_calls: [call, { ...call, id: "2" }] } },
    { index: 1, message: { role: "tool", tool_call_id: "1", content: "2 passed" } },
  ];
  vi.spyOn(log, "messages").mockResolvedValue(messages);
  const rows = await messagesOfRows().messages!({ id: "c0" } as never, { session, log } as never, { start: 0, end: 2 }, () => undefined);
  expect(rows.map((row) => row.item().accessibilityInformation!.label)).toEqual(["Tool: bash(pytest -q), 2 passed", "Tool: bash(pytest -q), no result"]);
});
