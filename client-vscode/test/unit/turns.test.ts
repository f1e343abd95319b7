import { beforeEach, expect, test, vi } from "vitest";
import type { Checkpoint, SpanSummary } from "timeleap-client";
import { Log } from "../../src/core/sessions/log.js";
import { CheckpointNode } from "../../src/core/tree/checkpointNodes.js";
import { CheckpointsTree } from "../../src/core/tree/checkpointsTree.js";
import { Leading } from "../../src/features/page/leading.js";
import { Nearness } from "../../src/features/search/nearness.js";
import { detailsOfRows } from "../../src/features/details/details.js";
import { painted } from "../../src/shared/text/telling.js";
import { user } from "../support/vscode.js";

beforeEach(() => user.reset());

type Kind = SpanSummary["kind"];

/** The tree of a session with these checkpoints, oldest first, each with two messages. */
function treeOf(...names: readonly (readonly [kind: Kind, name: string, errors?: number])[]) {
  const checkpoints: Checkpoint[] = names.map(([kind, name, errors], id) => {
    const summary: SpanSummary = { kind, text: name, messages: 2, tokens: 10, ...(errors === undefined ? {} : { errors }) };
    return { id, uid: `c${id}`, messageCount: id * 2, tokenCount: id * 10, name, summary };
  });
  const log = new Log({ read: () => Promise.resolve({ checkpoints: checkpoints.toReversed(), messages: [] } as never), total: () => names.length * 2 });
  const session = { id: "s", log, state: { context: { tokenCount: names.length * 10 } } };
  const nearness = new Nearness();
  const tree = new CheckpointsTree({ shown: session } as never, () => Promise.resolve(true), { rows: [], parts: [detailsOfRows, nearness] });
  const labels = async (node?: CheckpointNode): Promise<string[]> => (await tree.getChildren(node)).filter((row) => row instanceof CheckpointNode).map((row) => tree.getTreeItem(row).label as string);
  const turns = async (): Promise<CheckpointNode[]> => (await tree.getChildren()).filter((row) => row instanceof CheckpointNode);
  const near = (uid: string): Promise<CheckpointNode | undefined> => nearness.row(tree, session as never, uid);
  return { tree, log, labels, turns, near };
}

test("turns stand under their prompts, the newest unfolded; what failed in a step is a badge of its turn", async () => {
  const { tree, labels, turns } = treeOf(["text", "before any prompt"], ["prompt", "Fix it"], ["calls", "Edit a.py"], ["calls", "pytest", 1], ["prompt", "And the other"], ["calls", "Edit b.py"]);
  expect(await labels()).toEqual(["And the other", "Fix it", "before any prompt"]);
  const [newest, older] = await turns();
  expect(await labels(older)).toEqual(["pytest", "Edit a.py"]);
  expect([newest, older].map((turn) => tree.getTreeItem(turn!).collapsibleState)).toEqual([2, 1]);
  expect(tree.getTreeItem(older!).resourceUri?.query).toBe("1,0,");
  expect(tree.getTreeItem(older!).accessibilityInformation!.label).toBe("Checkpoint 1: Fix it, +6 messages, +30 tokens, 1 failed");
  tree.dispose();
});

test("a checkpoint that is gone to is found inside its turn, which is its parent", async () => {
  const { tree, near } = treeOf(["prompt", "Fix it"], ["calls", "Edit a.py"], ["prompt", "And the other"]);
  const row = await near("c1");
  expect(tree.getTreeItem(row!).label).toBe("Edit a.py");
  expect(tree.getParent(row!)).toMatchObject({ id: "s/c0" });
  tree.dispose();
});

test("a change that comes while a checkpoint is gone to is drawn, too", async () => {
  const { tree, log, near } = treeOf(["prompt", "Fix it"], ["calls", "Edit a.py"], ["prompt", "And the other"]);
  for (const row of await tree.getChildren()) {
    tree.getTreeItem(row);
  }
  const told = vi.fn(() => {
    if (told.mock.calls.length === 1) {
      log.add({ id: 3, uid: "c3", messageCount: 6, tokenCount: 30, label: "mine" });
      tree.refresh();
    }
  });
  tree.onDidChangeTreeData(told);
  await near("c1");
  await vi.waitFor(() => expect(told).toHaveBeenCalledTimes(2));
  expect((await tree.getChildren()).map((row) => tree.getTreeItem(row).label)).toContain("mine");
  tree.dispose();
});

test("a change that comes while the page selects its row is drawn, too", async () => {
  vi.useFakeTimers();
  const { tree, log } = treeOf(["prompt", "Fix it"], ["prompt", "And the other"]);
  const before = (await tree.getChildren()).map((row) => tree.getTreeItem(row).label);
  const told = vi.fn();
  tree.onDidChangeTreeData(told);
  const leading = new Leading({ checkpoints: { visible: true, selection: [], reveal: vi.fn() }, tree } as never);
  leading.to({ state: { context: { messageCount: 4 } } } as never, 0);
  await vi.advanceTimersByTimeAsync(140);
  log.add({ id: 3, uid: "c3", messageCount: 4, tokenCount: 30, label: "mine" });
  tree.refresh();
  await vi.advanceTimersByTimeAsync(500);
  vi.useRealTimers();
  expect(told).toHaveBeenCalled();
  expect((await tree.getChildren()).map((row) => tree.getTreeItem(row).label)).toEqual(["mine", ...before]);
  leading.dispose();
  tree.dispose();
});

test("a thousand steps of one turn are its rows, told apart; a step that is written leaves the others as they are", async () => {
  const { tree, labels, turns } = treeOf(["prompt", "Upload all"], ...Array.from({ length: 1_000 }, (_, at) => ["calls", `curl -X POST -F name=x -F file=@picture-${at}.jpg https://host`] as const));
  const [turn] = await turns();
  const rows = await labels(turn);
  expect(rows).toHaveLength(1_000);
  const seen = rows.map((label) => painted(label));
  for (let at = 0; at + 20 <= seen.length; at += 1) {
    expect(new Set(seen.slice(at, at + 20)).size).toBe(20);
  }
  expect((await tree.getChildren(turn))[5]).toBe((await tree.getChildren(turn))[5]);
  tree.dispose();
});

test.each([
  ["colours and titles of a terminal", (at: number) => `\u001b[31mred\u001b[0m \u001b]0;title\u0007 part ${at}`],
  ["one word repeated", () => "continue"],
  ["Hebrew", (at: number) => `תקן את הבדיקות של החלק ${at}`],
  ["marks that turn what follows around", (at: number) => `\u202Egnp.${at} exe`],
])("prompts of %s: 20 rows are told apart, and no row has what is not text", async (_, name) => {
  const { tree, labels } = treeOf(...Array.from({ length: 40 }, (_unused, at) => ["prompt", name(at)] as const));
  const rows = await labels();
  expect(new Set(rows.slice(0, 20).map((label) => painted(label))).size).toBe(20);
  expect(rows.join("")).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/u);
  tree.dispose();
});
