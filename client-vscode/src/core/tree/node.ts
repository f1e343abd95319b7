/** Rows of the trees. */

import * as vscode from "vscode";
import type { Workbench } from "../commands/register.js";
import { troubleInWords } from "../../shared/text/storageTrouble.js";

/** One row. Its id is the same after every refresh, so that selection and expansion survive. */
export abstract class TreeNode {
  /** @param id Unique in its tree. */
  constructor(
    readonly parent: TreeNode | undefined,
    readonly id: string,
  ) {}

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
  readonly expands?: "Collapsed" | "Expanded";
}

export function treeItem(id: string, { label, icon, color, spoken, context, badge, expands, ...rest }: Look): vscode.TreeItem {
  return Object.assign(new vscode.TreeItem(label, vscode.TreeItemCollapsibleState[expands ?? "None"]), rest, {
    id,
    accessibilityInformation: { label: spoken ?? [label, rest.description].filter(Boolean).join(", ") },
    ...(icon === undefined ? {} : { iconPath: new vscode.ThemeIcon(icon, color === undefined ? undefined : new vscode.ThemeColor(color)) }),
    ...(badge === undefined ? {} : { resourceUri: badge }),
    ...(context === undefined ? {} : { contextValue: context }),
  });
}

/** A row that shows the next page when it is chosen. */
export class MoreNode extends TreeNode {
  constructor(
    parent: TreeNode | undefined,
    private readonly label: string,
    /** Makes more be shown. */
    readonly show: () => Promise<void>,
    /** Where a row has several of them. */
    which = "more",
  ) {
    super(parent, `${parent?.id ?? ""}/${which}`);
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
  constructor(
    parent: TreeNode | undefined,
    private readonly error: unknown,
  ) {
    super(parent, `${parent?.id ?? ""}/trouble`);
  }

  item(): vscode.TreeItem {
    const label = troubleInWords(this.error);
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
