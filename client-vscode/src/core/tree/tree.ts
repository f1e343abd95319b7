/** Shows rows as a tree. What the editor is told to redraw is in memory by then, so no row is ever without its node for long. */

import * as vscode from "vscode";
import { Disposables } from "../../shared/lifecycle.js";
import { TreeNode, TroubleNode } from "./node.js";

/** Milliseconds in which changes are shown together: a checkpoint and the message that names it. The editor itself draws a tree at most every 200 ms. */
const GATHER = 20;

/** Under which the rows at the top are kept. */
const TOP = "";

/** Rows by the id of the row that they are under. */
type Rows = Map<string, readonly TreeNode[]>;

export abstract class NodeTree extends Disposables implements vscode.TreeDataProvider<TreeNode> {
  private readonly treeChanged = this.register(new vscode.EventEmitter<undefined>());
  readonly onDidChangeTreeData = this.treeChanged.event;
  /** What the editor has been given, or is about to ask for. */
  private given: Rows = new Map();
  /** Whose children the editor shows. */
  readonly open = new Set<string>();
  private readonly items = new WeakMap<TreeNode, vscode.TreeItem>();
  private isVisible = (): boolean => true;
  /** Counts changes, and which of them `given` has. */
  private changes = 0;
  private seen = 0;
  /** Changes when what is being read is no longer wanted. */
  private epoch = 0;
  private gathering: NodeJS.Timeout | undefined;
  private reading = Promise.resolve();
  /** The editor's first question for the top, while it has no answer: the answer shows a change that comes meanwhile. */
  private first: { readonly answer: Promise<TreeNode[]>; readonly ask: () => void } | undefined;

  /** The rows at the top. */
  protected abstract roots(): Promise<TreeNode[]>;

  /** Says which view shows this tree: what nobody sees is not read ahead. */
  follow(view: vscode.TreeView<TreeNode>): void {
    this.isVisible = () => view.visible;
    this.register(view.onDidExpandElement(({ element }) => this.open.add(element.id)));
    this.register(view.onDidCollapseElement(({ element }) => this.open.delete(element.id)));
  }

  getTreeItem(node: TreeNode): vscode.TreeItem {
    const item = this.items.get(node) ?? node.item();
    this.items.set(node, item);
    return item;
  }

  /** Never fails: the editor shows no tooltip then. */
  async resolveTreeItem(item: vscode.TreeItem, node: TreeNode): Promise<vscode.TreeItem> {
    const tooltip = item.tooltip ?? (await node.tooltipToRead().catch(() => undefined));
    return tooltip === undefined ? item : Object.assign(new vscode.TreeItem(item.label ?? ""), item, { tooltip });
  }

  getParent(node: TreeNode): TreeNode | undefined {
    return node.parent;
  }

  /** For the editor alone, which draws the answer; others take `drawn`. Never fails: what goes wrong is a row. */
  async getChildren(node?: TreeNode): Promise<TreeNode[]> {
    const key = node?.id ?? TOP;
    this.open.add(key);
    const known = this.changes === this.seen ? this.given.get(key) : undefined;
    if (known) {
      return [...known];
    }
    if (node === undefined && this.given.size === 0) {
      this.first ??= this.firstRows();
      return [...(await this.first.answer)];
    }
    return this.readRows(node);
  }

  /** Shows changes soon, those that come together together: reads what is open again, then has it drawn if it looks different. */
  refresh(): void {
    this.changes += 1;
    this.gathering ??= setTimeout(() => {
      this.reading = this.reading.then(() => {
        this.gathering = undefined;
        return this.readAhead();
      });
    }, GATHER);
  }

  /** The rows at the top that the editor has been told of. Only the editor may have others read: it would not be told of them. */
  get drawn(): readonly TreeNode[] | undefined {
    return this.given.get(TOP);
  }

  /** Reads what is open again now. Resolves when the editor has been told. */
  async renew(): Promise<void> {
    this.changes += 1;
    this.reading = this.reading.then(() => this.readAhead());
    await this.reading;
  }

  /** Shows something else: what is shown now is taken away at once. */
  restart(): void {
    this.epoch += 1;
    this.seen = this.changes;
    this.given = new Map();
    this.open.clear();
    clearTimeout(this.gathering);
    this.gathering = undefined;
    this.reading = Promise.resolve();
    if (this.first) {
      this.first.ask(); // told of a change the editor would wait 200 ms for more of them, and then ask the same
    } else {
      this.treeChanged.fire(undefined);
    }
  }

  override dispose(): void {
    clearTimeout(this.gathering);
    super.dispose();
  }

  private async readRows(node?: TreeNode): Promise<TreeNode[]> {
    const { epoch } = this;
    const rows = await this.rowsUnder(node);
    if (epoch === this.epoch) {
      this.given.set(node?.id ?? TOP, rows);
    }
    return rows;
  }

  /** The rows at the top, read again whenever `ask` is called before they are there. */
  private firstRows(): NonNullable<NodeTree["first"]> {
    let answered: ((rows: TreeNode[]) => void) | undefined;
    const answer = new Promise<TreeNode[]>((resolve) => (answered = resolve));
    const ask = (): void => {
      const { epoch } = this;
      void this.readRows().then((rows) => {
        if (epoch === this.epoch) {
          this.first = undefined;
          answered?.(rows);
        }
      });
    };
    ask();
    return { answer, ask };
  }

  private async readAhead(): Promise<void> {
    await this.first?.answer;
    const { changes, epoch } = this;
    const next: Rows = new Map();
    const wanted = this.given.has(TOP) && this.isVisible();
    if (wanted) {
      await this.read(undefined, next);
    }
    if (epoch !== this.epoch || this.disposed) {
      return;
    }
    this.seen = changes;
    if (!wanted || this.differs(next)) {
      this.epoch += 1;
      this.given = next;
      this.treeChanged.fire(undefined);
    }
  }

  private async read(node: TreeNode | undefined, into: Rows): Promise<void> {
    const rows = await this.rowsUnder(node);
    into.set(node?.id ?? TOP, rows);
    await Promise.all(rows.filter(({ id }) => this.open.has(id)).map((row) => this.read(row, into)));
  }

  private async rowsUnder(node: TreeNode | undefined): Promise<TreeNode[]> {
    try {
      return await (node ? node.children() : this.roots());
    } catch (error) {
      return [new TroubleNode(node, error)];
    }
  }

  private differs(next: Rows): boolean {
    return [...next].some(([key, rows]) => {
      const before = this.given.get(key);
      return before?.length !== rows.length || rows.some((row, index) => this.looks(row) !== this.looks(before[index] ?? row));
    });
  }

  /** Everything of a row that can be seen or heard. */
  private looks(node: TreeNode): string {
    const { label, description, tooltip, iconPath, contextValue, collapsibleState, accessibilityInformation, resourceUri } = this.getTreeItem(node);
    return JSON.stringify([node.id, label, description, tooltip, iconPath, contextValue, collapsibleState, accessibilityInformation, resourceUri?.toString()]);
  }
}
