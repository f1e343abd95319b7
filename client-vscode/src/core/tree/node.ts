/** Rows of the trees. */

import * as vscode from "vscode";
import type { Workbench } from "../commands/register.js";
import { messageOf } from "../../shared/errors.js";
import { storageTroubleOf } from "../../shared/text/storageTrouble.js";

/** One row. Its id is the same after every refresh, so that selection and expansion survive. */
export abstract class TreeNode {
  /** Unique in its tree. */
  abstract readonly id: string;

  /** @param parent May become another node of the same id, where this one is as it was. */
  constructor(public parent: TreeNode | undefined) {}

  abstract item(): vscode.TreeItem;

  /** The tooltip of a row whose item has none yet: asked for when somebody points at the row. */
  tooltipToRead(): Promise<vscode.MarkdownString | undefined> {
    return Promise.resolve(undefined);
  }

  /**
   * What Restore does on the row, where it is none of a checkpoint.
   *
   * @param asks Whether a person is asked at any rate.
   */
  restore?(bench: Workbench, asks: boolean): Promise<void>;

  children(): Promise<TreeNode[]> {
    return Promise.resolve([]);
  }
}

/** How a row looks; what is left out is left off. */
export interface Look {
  readonly label: string;
  readonly description?: string;
  readonly icon?: string;
  readonly color?: string;
  readonly tooltip?: string | vscode.MarkdownString;
  /** What a screen reader says. Default: label and description. */
  readonly spoken?: string;
  readonly context?: string;
  readonly command?: vscode.Command;
  /** Where its badge is learnt (see `badges.ts`). */
  readonly badge?: vscode.Uri;
  readonly expands?: "collapsed" | "expanded";
}

const STATES = {
  never: vscode.TreeItemCollapsibleState.None,
  collapsed: vscode.TreeItemCollapsibleState.Collapsed,
  expanded: vscode.TreeItemCollapsibleState.Expanded,
};

export function treeItem(id: string, look: Look): vscode.TreeItem {
  const item = new vscode.TreeItem(look.label, STATES[look.expands ?? "never"]);
  item.id = id;
  item.accessibilityInformation = { label: look.spoken ?? [look.label, look.description].filter(Boolean).join(", ") };
  if (look.description !== undefined) {
    item.description = look.description;
  }
  if (look.icon !== undefined) {
    item.iconPath = new vscode.ThemeIcon(look.icon, look.color === undefined ? undefined : new vscode.ThemeColor(look.color));
  }
  if (look.tooltip !== undefined) {
    item.tooltip = look.tooltip;
  }
  if (look.badge !== undefined) {
    item.resourceUri = look.badge;
  }
  if (look.context !== undefined) {
    item.contextValue = look.context;
  }
  if (look.command !== undefined) {
    item.command = look.command;
  }
  return item;
}

/** A row that shows the next page when it is chosen. */
export class MoreNode extends TreeNode {
  readonly id: string;

  constructor(
    parent: TreeNode | undefined,
    private readonly label: string,
    /** Makes more be shown. */
    readonly show: () => Promise<void>,
    /** Where a row has several of them. */
    which = "more",
  ) {
    super(parent);
    this.id = `${parent?.id ?? ""}/${which}`;
  }

  item(): vscode.TreeItem {
    return treeItem(this.id, {
      label: this.label,
      icon: "ellipsis",
      context: "more",
      command: { command: "timeleap.showMore", title: "", arguments: [this] },
    });
  }
}

/** What went wrong where rows should be, with the way to try again. */
export class TroubleNode extends TreeNode {
  readonly id: string;

  constructor(
    parent: TreeNode | undefined,
    private readonly error: unknown,
  ) {
    super(parent);
    this.id = `${parent?.id ?? ""}/trouble`;
  }

  item(): vscode.TreeItem {
    const trouble = storageTroubleOf(this.error);
    const label = trouble ? `${trouble.what} ${trouble.next}` : messageOf(this.error);
    return treeItem(this.id, {
      label,
      description: vscode.l10n.t("Try Again"),
      icon: "error",
      color: "list.errorForeground",
      tooltip: label,
      context: "trouble",
      command: { command: "timeleap.refresh", title: "" },
    });
  }
}
