/** The view of all sessions: of this workspace, of others, and in the trash. */

import * as vscode from "vscode";
import type { SessionInfo, SessionListParams, TrashedSession } from "timeleap-client";
import type { Sessions } from "../sessions/sessions.js";
import { isAmong, workspaces } from "../sessions/workspaces.js";
import type { Wire } from "../server/sidecar.js";
import { Pages, type Page } from "../sessions/pages.js";
import { exactTokens, fullTime, messages, relativeTime, tokens } from "../../shared/text/format.js";
import { MoreNode, TreeNode, treeItem } from "./node.js";
import { NodeTree } from "./tree.js";

const PAGE = 50;

export class SessionsTree extends NodeTree {
  /** Of each folder of the window, by the workspace's URI. */
  private readonly here = new Map<string, Pages<SessionInfo>>();
  private readonly all: Pages<SessionInfo>;
  private readonly trash: Pages<TrashedSession>;

  constructor(
    private readonly sessions: Sessions,
    wire: Pick<Wire, "request">,
    private readonly ready: () => Promise<boolean>,
  ) {
    super();
    this.all = this.pages({});
    this.trash = new Pages(async (cursor) => page(await wire.request("session/listTrash", { limit: PAGE, ...after(cursor) })));
    this.register(vscode.workspace.onDidChangeWorkspaceFolders(() => this.refresh()));
  }

  /** What the lists say may no longer be true. */
  reload(): void {
    for (const pages of [...this.here.values(), this.all, this.trash]) {
      pages.reset();
    }
    this.refresh();
  }

  protected async roots(): Promise<TreeNode[]> {
    if (!(await this.ready())) {
      return [];
    }
    const folders = workspaces();
    const elsewhere = ({ workspace }: SessionInfo): boolean => !isAmong(folders, workspace);
    const [all, trash, ...here] = await Promise.all([this.all.list(), this.trash.list(), ...folders.map(({ uri }) => this.of(uri).list())]);
    const others = folders.length === 0 ? vscode.l10n.t("All Sessions") : vscode.l10n.t("Other Sessions");
    const groups = folders.map(({ uri, name }, index) => {
      const [id, label] = folders.length === 1 ? ["here", vscode.l10n.t("This Workspace")] : [`here/${uri}`, name];
      return { id, label, pages: this.of(uri), empty: here[index]?.length === 0 };
    });
    // A group with nothing in it would only be in the way.
    return [
      ...groups.filter(({ empty }) => !empty).map(({ id, label, pages }) => this.group(id, label, "home", pages, () => true)),
      ...(all.some(elsewhere) || this.all.hasMore ? [this.group("all", others, "list-unordered", this.all, elsewhere)] : []),
      ...(trash.length > 0 ? [new GroupNode("trash", vscode.l10n.t("Trash"), "trash", "collapsed", (parent) => this.trashed(parent))] : []),
    ];
  }

  private of(workspace: string): Pages<SessionInfo> {
    const pages = this.here.get(workspace) ?? this.pages({ workspace });
    this.here.set(workspace, pages);
    return pages;
  }

  private pages(filter: SessionListParams): Pages<SessionInfo> {
    return new Pages(async (cursor) => page(await this.sessions.list({ limit: PAGE, includeArchived: true, ...filter, ...after(cursor) })));
  }

  private group(id: string, label: string, icon: string, pages: Pages<SessionInfo>, keep: (info: SessionInfo) => boolean): GroupNode {
    return new GroupNode(id, label, icon, "expanded", async (parent) => {
      const nodes = (await pages.list()).filter(keep).map((info) => new SessionNode(parent, info, this.sessions));
      return [...nodes, ...this.rest(parent, pages)];
    });
  }

  private async trashed(parent: TreeNode): Promise<TreeNode[]> {
    const seen = new Set<string>();
    const nodes = (await this.trash.list()).flatMap((info) => {
      // Only the newest of an id can be taken out again.
      const fresh = !seen.has(info.sessionId);
      seen.add(info.sessionId);
      return fresh ? [new TrashedNode(parent, info)] : [];
    });
    return [...nodes, ...this.rest(parent, this.trash)];
  }

  private rest<T>(parent: TreeNode, pages: Pages<T>): TreeNode[] {
    const show = async (): Promise<void> => {
      await pages.more();
      this.refresh();
    };
    return pages.hasMore ? [new MoreNode(parent, vscode.l10n.t("Show older sessions"), show)] : [];
  }
}

function after(cursor: string | undefined): { cursor?: string } {
  return cursor === undefined ? {} : { cursor };
}

function page<T>({ sessions, nextCursor }: { sessions: readonly T[]; nextCursor?: string }): Page<T> {
  return { entries: sessions, nextCursor };
}

export class GroupNode extends TreeNode {
  constructor(
    readonly id: string,
    private readonly label: string,
    private readonly icon: string,
    private readonly expands: "collapsed" | "expanded",
    private readonly rows: (parent: GroupNode) => Promise<TreeNode[]>,
  ) {
    super(undefined);
  }

  item(): vscode.TreeItem {
    return treeItem(this.id, { label: this.label, icon: this.icon, expands: this.expands, context: "group" });
  }

  override children(): Promise<TreeNode[]> {
    return this.rows(this);
  }
}

export class SessionNode extends TreeNode {
  readonly id: string;

  constructor(
    parent: TreeNode,
    readonly info: SessionInfo,
    private readonly sessions: Sessions,
  ) {
    super(parent);
    this.id = `session/${info.sessionId}`;
  }

  get name(): string {
    return this.info.title ?? this.info.sessionId;
  }

  item(): vscode.TreeItem {
    const { archived, damaged, owner, updatedAt, sessionId } = this.info;
    const count = this.sessions.tokensOf(this.info);
    const open = this.sessions.isOpen(sessionId);
    const shown = this.sessions.shown?.id === sessionId;
    const facts = [
      ...(shown ? [vscode.l10n.t("shown")] : open ? [vscode.l10n.t("open")] : []),
      ...(archived ? [vscode.l10n.t("archived")] : []),
      relativeTime(updatedAt),
      ...(count === undefined ? [] : [tokens(count)]),
      ...(owner && owner.pid !== process.pid && !this.sessions.get(sessionId) ? [vscode.l10n.t("in use by process {0}", String(owner.pid))] : []),
    ];
    return treeItem(this.id, {
      label: this.name,
      description: damaged === undefined ? facts.join(" · ") : vscode.l10n.t("cannot be read: {0}", damaged),
      icon: damaged !== undefined ? "error" : shown ? "eye" : open ? "circle-filled" : archived ? "archive" : "comment-discussion",
      ...(damaged === undefined ? {} : { color: "list.errorForeground" }),
      tooltip: this.tooltip(),
      context: ["session", open ? "open" : "closed", ...(archived ? ["archived"] : [])].join("."),
      command: { command: "timeleap.openSession", title: vscode.l10n.t("Open"), arguments: [this] },
    });
  }

  private tooltip(): string {
    const { sessionId, path, createdAt, updatedAt, messageCount, owner, workspace, parent } = this.info;
    const count = this.sessions.tokensOf(this.info);
    return [
      this.name,
      [sessionId, messages(messageCount), ...(count === undefined ? [] : [exactTokens(count)])].join(" · "),
      vscode.l10n.t("Created {0}", fullTime(createdAt)),
      vscode.l10n.t("Changed {0}", fullTime(updatedAt)),
      ...(owner ? [vscode.l10n.t("In use by process {0} on {1} since {2}", String(owner.pid), owner.host, fullTime(owner.since))] : []),
      ...(parent ? [vscode.l10n.t("Forked from {0}", parent.sessionId)] : []),
      ...(workspace === undefined ? [] : [workspace]),
      path,
    ].join("\n");
  }
}

export class TrashedNode extends TreeNode {
  readonly id: string;

  constructor(
    parent: TreeNode,
    readonly info: TrashedSession,
  ) {
    super(parent);
    this.id = `trash/${info.sessionId}`;
  }

  get name(): string {
    return this.info.title ?? this.info.sessionId;
  }

  item(): vscode.TreeItem {
    return treeItem(this.id, {
      label: this.name,
      description: vscode.l10n.t("deleted {0}", relativeTime(this.info.deletedAt)),
      icon: "trash",
      tooltip: `${this.name}\n${this.info.sessionId}`,
      context: "session.trashed",
    });
  }
}
