/** Rows of the files that changed between two states of a workspace. */

import * as vscode from "vscode";
import type { FileChange } from "timeleap-client";
import type { Session } from "../core/sessions/session.js";
import type { Pages } from "../core/sessions/pages.js";
import { bytes, exact, listed } from "../shared/text/format.js";
import { nameAndFolder, shownPath } from "../shared/text/paths.js";
import { filesOf } from "./sessionFiles.js";
import { MoreNode, TreeNode, treeItem } from "../core/tree/node.js";

type Kind = FileChange["kind"];

const LOOKS: Readonly<Record<Kind, { readonly icon: string; readonly color: string }>> = {
  added: { icon: "diff-added", color: "gitDecoration.addedResourceForeground" },
  modified: { icon: "diff-modified", color: "gitDecoration.modifiedResourceForeground" },
  deleted: { icon: "diff-removed", color: "gitDecoration.deletedResourceForeground" },
  type: { icon: "diff-renamed", color: "gitDecoration.modifiedResourceForeground" },
  mode: { icon: "lock", color: "gitDecoration.modifiedResourceForeground" },
};

export function kindName(kind: Kind): string {
  switch (kind) {
    case "added":
      return vscode.l10n.t("added");
    case "modified":
      return vscode.l10n.t("changed");
    case "deleted":
      return vscode.l10n.t("deleted");
    case "type":
      return vscode.l10n.t("became another kind of file");
    case "mode":
      return vscode.l10n.t("other permissions");
  }
}

/** What changed from a snapshot to a later one, or to the disk. */
export interface FileRange {
  readonly session: Session;
  readonly from: string;
  /** Undefined: the disk. */
  readonly to: string | undefined;
}

/** The row above them; nothing is asked for until somebody opens it. */
export class ChangedFilesNode extends TreeNode {
  private drawn: string | undefined;

  constructor(
    parent: TreeNode,
    readonly range: FileRange,
    /** How many there are, where that is known without asking. */
    private readonly known: number | undefined,
    private readonly refresh: () => void,
  ) {
    super(parent, `${parent.id}/files`);
  }

  item(): vscode.TreeItem {
    const until = this.range.to === undefined ? vscode.l10n.t("until now") : "";
    const count = this.count();
    this.drawn = count;
    return treeItem(this.id, {
      label: vscode.l10n.t("Changed Files"),
      description: [count, until].filter(Boolean).join(" · "),
      icon: "files",
      spoken: listed([vscode.l10n.t("Changed Files"), count, until]),
      context: "changedFiles",
      expands: "Collapsed",
    });
  }

  override async children(): Promise<TreeNode[]> {
    const { pages } = this;
    const changes = await pages.list();
    if (this.drawn !== undefined && this.drawn !== this.count()) {
      this.refresh(); // how many there are is known now
    }
    const nodes: TreeNode[] = changes.map((change) => new FileNode(this, this.range, change));
    if (pages.hasMore) {
      const show = async (): Promise<void> => {
        await pages.more();
        this.refresh();
      };
      nodes.push(new MoreNode(this, vscode.l10n.t("Show More"), show));
    }
    return nodes.length === 0 ? [new NoFilesNode(this)] : nodes;
  }

  private get pages(): Pages<FileChange> {
    const { session, from, to } = this.range;
    return filesOf(session).changes(from, to);
  }

  /** As far as they are loaded, else as far as it is known; "": not at all. */
  private count(): string {
    const { size, hasMore } = this.pages;
    const count = hasMore ? (this.known ?? size) : (size ?? this.known);
    return count === undefined ? "" : exact(count) + (hasMore && this.known === undefined ? "+" : "");
  }
}

export class FileNode extends TreeNode {
  constructor(
    parent: TreeNode,
    readonly range: FileRange,
    readonly change: FileChange,
  ) {
    super(parent, `${parent.id}/${change.root ?? ""}:${change.path}`);
  }

  /** The whole path, as a person reads it. */
  get path(): string {
    return shownPath(this.change);
  }

  item(): vscode.TreeItem {
    const { kind } = this.change;
    const [name, folder] = nameAndFolder(this.change);
    return treeItem(this.id, {
      label: name,
      description: [folder, kind === "type" || kind === "mode" ? kindName(kind) : ""].filter(Boolean).join(" · "),
      ...LOOKS[kind],
      tooltip: [this.path, kindName(kind), this.sizes()].filter(Boolean).join("\n"),
      spoken: `${vscode.l10n.t("File")}: ${listed([this.path, kindName(kind)])}`,
      context: `file.${kind}`,
      command: { command: "timeleap.openFileChange", title: "", arguments: [this] },
    });
  }

  private sizes(): string {
    const { bytesFrom, bytesTo } = this.change;
    return [bytesFrom, bytesTo].filter((size) => size !== undefined).map(bytes).join(" → ");
  }
}

class NoFilesNode extends TreeNode {
  constructor(parent: TreeNode) {
    super(parent, `${parent.id}/none`);
  }

  item(): vscode.TreeItem {
    return treeItem(this.id, { label: vscode.l10n.t("Nothing found"), icon: "check", context: "noFiles" });
  }
}
