import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type * as vscode from "vscode";
import { TreeNode, TroubleNode, treeItem } from "../../src/core/tree/node.js";
import { NodeTree } from "../../src/core/tree/tree.js";
import { user, window } from "../support/vscode.js";

beforeEach(() => {
  user.reset();
  vi.useFakeTimers();
});

afterEach(() => void vi.useRealTimers());

/** Names by the name they are under; "" for the top. */
type Names = Record<string, string[]>;

class NamedNode extends TreeNode {
  constructor(
    parent: TreeNode | undefined,
    id: string,
    private readonly tree: NamedTree,
  ) {
    super(parent, id);
  }

  item(): vscode.TreeItem {
    return treeItem(this.id, { label: this.tree.labels.get(this.id) ?? this.id });
  }

  override children(): Promise<TreeNode[]> {
    return this.tree.rows(this);
  }
}

/** Shows `names`; each level is a request that can be held up and fail. */
class NamedTree extends NodeTree {
  readonly labels = new Map<string, string>();
  readonly asked: string[] = [];
  fails = false;
  gate: Promise<void> = Promise.resolve();

  constructor(public names: Names) {
    super();
  }

  async rows(parent?: TreeNode): Promise<TreeNode[]> {
    const key = parent?.id ?? "";
    this.asked.push(key);
    await this.gate;
    if (this.fails) {
      throw new Error("the disk is on fire");
    }
    return (this.names[key] ?? []).map((name) => new NamedNode(parent, name, this));
  }

  protected roots(): Promise<TreeNode[]> {
    return this.rows();
  }
}

/** The tree as an editor shows it: told of a change, it asks for the rows at the top and under what is expanded. */
function shown(names: Names) {
  const tree = new NamedTree(names);
  const view = window.createTreeView("test", { treeDataProvider: tree });
  tree.follow(view as unknown as vscode.TreeView<TreeNode>);
  const told = vi.fn();
  tree.onDidChangeTreeData(told);
  return { tree, view, told };
}

const ids = (rows: readonly TreeNode[]): string[] => rows.map(({ id }) => id);
const soon = (): Promise<unknown> => vi.advanceTimersByTimeAsync(1_000);

test("rows that cannot be had are one that says why, with the way to try again", async () => {
  const { tree } = shown({});
  tree.fails = true;
  const [row] = await tree.getChildren();
  expect(row).toBeInstanceOf(TroubleNode);
  expect(tree.getTreeItem(row!)).toMatchObject({ label: "the disk is on fire", command: { command: "timeleap.refresh" } });
  tree.fails = false;
  tree.refresh();
  await soon();
  expect(await tree.getChildren()).toEqual([]);
});

test("the editor is told of a change when the rows are in memory, down to the last that is open", async () => {
  const { tree, told } = shown({ "": ["a", "b"], a: ["a1"], a1: ["x"] });
  const [a] = await tree.getChildren();
  const [a1] = await tree.getChildren(a);
  await tree.getChildren(a1);
  let open = (): void => undefined;
  tree.gate = new Promise((resolve) => (open = resolve));
  tree.names = { "": ["c", "a", "b"], a: ["a1", "a2"], a1: ["x", "y"] };
  tree.refresh();
  await soon();
  expect(told).not.toHaveBeenCalled();
  open();
  await soon();
  expect(told).toHaveBeenCalledTimes(1);
  tree.asked.length = 0;
  const rows = await tree.getChildren();
  expect(ids(rows)).toEqual(["c", "a", "b"]);
  expect(ids(await tree.getChildren(rows[1]))).toEqual(["a1", "a2"]);
  expect(tree.asked).toEqual([]);
});

test("a change that changes no row is not drawn, one of a single word is", async () => {
  const { tree, told } = shown({ "": ["a"], a: ["a1"] });
  const [a] = await tree.getChildren();
  await tree.getChildren(a);
  tree.refresh();
  await soon();
  expect(told).not.toHaveBeenCalled();
  tree.labels.set("a1", "another");
  tree.refresh();
  await soon();
  expect(told).toHaveBeenCalledTimes(1);
});

test("what is collapsed is not read ahead, what is expanded again is", async () => {
  const { tree, view } = shown({ "": ["a"], a: ["a1"] });
  const [a] = await tree.getChildren();
  await tree.getChildren(a);
  view.collapsed.fire({ element: a });
  tree.asked.length = 0;
  tree.refresh();
  await soon();
  expect(tree.asked).toEqual([""]);
  view.expanded.fire({ element: a });
  tree.refresh();
  await soon();
  expect(tree.asked).toEqual(["", "", "a"]);
});

test("a view that nobody sees asks for nothing until it is seen", async () => {
  const { tree, view, told } = shown({ "": ["a"] });
  await tree.getChildren();
  view.visible = false;
  tree.names = { "": ["b"] };
  tree.refresh();
  await soon();
  expect(tree.asked).toEqual([""]);
  expect(told).toHaveBeenCalledTimes(1);
  expect(ids(await tree.getChildren())).toEqual(["b"]);
});

test("who asks after a change, and before it was drawn, gets what is true", async () => {
  const { tree } = shown({ "": ["a"] });
  await tree.getChildren();
  tree.names = { "": ["b"] };
  tree.refresh();
  expect(ids(await tree.getChildren())).toEqual(["b"]);
});

test("changes that come together are drawn together, and those that come meanwhile once more", async () => {
  const { tree, told } = shown({ "": ["0"] });
  await tree.getChildren();
  for (let change = 1; change <= 100; change += 1) {
    tree.names = { "": [String(change)] };
    tree.refresh();
  }
  await soon();
  expect(told).toHaveBeenCalledTimes(1);
  let open = (): void => undefined;
  tree.gate = new Promise((resolve) => (open = resolve));
  tree.refresh();
  await soon();
  tree.names = { "": ["last"] };
  tree.refresh();
  open();
  await soon();
  expect(ids(await tree.getChildren())).toEqual(["last"]);
});

test("another subject is shown at once, and what was on its way for the one before is dropped", async () => {
  const { tree, told } = shown({ "": ["a"] });
  await tree.getChildren();
  let open = (): void => undefined;
  tree.gate = new Promise((resolve) => (open = resolve));
  tree.refresh();
  await soon();
  tree.restart();
  expect(told).toHaveBeenCalledTimes(1);
  tree.gate = Promise.resolve();
  tree.names = { "": ["b"] };
  expect(ids(await tree.getChildren())).toEqual(["b"]);
  open();
  await soon();
  expect(told).toHaveBeenCalledTimes(1);
  expect(ids(await tree.getChildren())).toEqual(["b"]);
});

test("a first question that waits is answered with the subject that is shown by then, and nothing has to be drawn again", async () => {
  const { tree, told } = shown({ "": ["a"] });
  tree.gate = new Promise(() => undefined); // the first subject never answers
  const first = tree.getChildren();
  const again = tree.getChildren();
  tree.refresh();
  await soon();
  tree.gate = Promise.resolve();
  tree.names = { "": ["b"] };
  tree.restart();
  expect(ids(await first)).toEqual(["b"]);
  expect(ids(await again)).toEqual(["b"]);
  await soon();
  expect(told).not.toHaveBeenCalled();
  tree.names = { "": ["c"] };
  tree.refresh();
  await soon();
  expect(told).toHaveBeenCalledTimes(1);
  expect(ids(await tree.getChildren())).toEqual(["c"]);
});

test("a tree that is put away tells nobody any more", async () => {
  const { tree, told } = shown({ "": ["a"] });
  await tree.getChildren();
  tree.names = { "": ["b"] };
  tree.refresh();
  tree.dispose();
  await soon();
  expect(told).not.toHaveBeenCalled();
});
