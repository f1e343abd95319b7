/** The view of what was set aside in the shown session. */

import * as vscode from "vscode";
import type { Timeline } from "timeleap-client";
import type { Session } from "../sessions/session.js";
import type { Sessions } from "../sessions/sessions.js";
import { bytes as sizeInBytes, checkpoints, fullTime, messages, relativeTime } from "../text/format.js";
import { checkpointRows, newSetting, type Setting } from "./checkpointNodes.js";
import { MoreNode, TreeNode, treeItem } from "./node.js";
import { NodeTree } from "./tree.js";

export class TimelinesTree extends NodeTree {
  private readonly setting = newSetting(() => this.refresh());

  constructor(
    private readonly sessions: Sessions,
    private readonly ready: () => Promise<boolean>,
  ) {
    super();
  }

  protected async roots(): Promise<TreeNode[]> {
    const session = (await this.ready()) ? this.sessions.shown : undefined;
    if (!session) {
      return [];
    }
    const nodes: TreeNode[] = (await session.timelines.list()).map((timeline) => new TimelineNode(session, timeline, this.setting));
    if (session.timelines.hasMore) {
      nodes.push(
        new MoreNode(undefined, vscode.l10n.t("Show older timelines"), async () => {
          await session.timelines.more();
          this.refresh();
        }),
      );
    }
    return nodes;
  }
}

const ICONS: Readonly<Record<Timeline["reason"], string>> = {
  revert: "discard",
  clear: "clear-all",
  compact: "fold",
  restore: "history",
  dmail: "mail",
  external: "sync",
  import: "cloud-download",
  unknown: "archive",
};

export class TimelineNode extends TreeNode {
  readonly id: string;

  constructor(
    readonly session: Session,
    readonly timeline: Timeline,
    private readonly setting: Setting,
  ) {
    super(undefined);
    this.id = `${session.id}/${timeline.timelineId}`;
  }

  get name(): string {
    return reasonName(this.timeline.reason);
  }

  item(): vscode.TreeItem {
    const { createdAt, messageCount, checkpointCount, file, bytes } = this.timeline;
    const age = createdAt === undefined ? [] : [relativeTime(createdAt)];
    return treeItem(this.id, {
      label: this.name,
      description: [...age, messages(messageCount), checkpoints(checkpointCount)].join(" · "),
      icon: ICONS[this.timeline.reason],
      tooltip: [this.name, ...(createdAt === undefined ? [] : [fullTime(createdAt)]), file, sizeInBytes(bytes)].join("\n"),
      context: "timeline",
      ...(messageCount + checkpointCount > 0 ? { expands: "collapsed" as const } : {}),
    });
  }

  override children(): Promise<TreeNode[]> {
    return checkpointRows(this, this.session, this.session.timelines.log(this.timeline), this.setting);
  }
}

/** What a person calls it: what set it aside, and when. */
export function timelineName({ reason, createdAt }: Timeline): string {
  return createdAt === undefined ? reasonName(reason) : `${reasonName(reason)}, ${relativeTime(createdAt)}`;
}

/** What set a timeline aside. */
export function reasonName(reason: Timeline["reason"]): string {
  switch (reason) {
    case "revert":
      return vscode.l10n.t("Before a revert");
    case "clear":
      return vscode.l10n.t("Before clearing");
    case "compact":
      return vscode.l10n.t("Before a compaction");
    case "restore":
      return vscode.l10n.t("Before a restore");
    case "dmail":
      return vscode.l10n.t("Before a D-Mail");
    case "external":
      return vscode.l10n.t("Before its program went back");
    case "import":
      return vscode.l10n.t("Imported");
    case "unknown":
      return vscode.l10n.t("Earlier log");
  }
}
