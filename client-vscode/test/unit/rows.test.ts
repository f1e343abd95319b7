import { beforeEach, expect, test } from "vitest";
import type { Checkpoint } from "timeleap-client";
import { Log } from "../../src/sessions/log.js";
import { CheckpointsTree } from "../../src/views/checkpointsTree.js";
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
  const session = { id: "s", log, state: { pendingDMail: null as unknown } };
  return { session, log, more, tree: new CheckpointsTree({ shown: session } as never, () => Promise.resolve(true)) };
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
