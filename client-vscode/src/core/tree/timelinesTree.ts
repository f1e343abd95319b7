/** The view of what was set aside in the shown session. */

import * as vscode from "vscode";
import type { Timeline } from "timeleap-client";
import type { Session } from "../sessions/session.js";
import type { Sessions } from "../sessions/sessions.js";
import type { Branch } from "../sessions/timelines.js";
import { age, bytes as sizeInBytes, checkpoints, fullTime, messages, relativeTime } from "../../shared/text/format.js";
import { lostInWords } from "../../shared/text/happened.js";
import { checkpointRows, newSetting, type Setting } from "./checkpointNodes.js";
import { MoreNode, TreeNode, treeItem } from "./node.js";
import { NodeTree } from "./tree.js";

/** Characters of the first and of the last message in a row, and where there is more room. */
const ROW = 14;
const NAMED = 30;

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
    const nodes: TreeNode[] = (await session.timelines.distinct()).map(({ timeline, branch }) => new TimelineNode(session, timeline, branch, this.setting));
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
    /** What it has that the present has not; undefined: not known, and it is shown whole. */
    private readonly branch: Branch | undefined,
    private readonly setting: Setting,
  ) {
    super(undefined);
    this.id = `${session.id}/${timeline.timelineId}`;
  }

  get name(): string {
    return timelineName(this.timeline, this.branch, NAMED);
  }

  item(): vscode.TreeItem {
    const { createdAt, messageCount, checkpointCount, file, bytes, reason } = this.timeline;
    const { branch } = this;
    const facts = branch ? [branch.lost === 0 ? vscode.l10n.t("nothing that the present has not") : ""] : [messages(messageCount), checkpoints(checkpointCount)];
    const label = branch && branch.lost > 0 ? lostInWords(branch, ROW) : reasonName(reason);
    const description = [createdAt === undefined ? "" : age(createdAt), branch && branch.lost > 0 ? reasonName(reason) : "", ...facts].filter(Boolean).join(" · ");
    const whole = [messages(messageCount), checkpoints(checkpointCount), sizeInBytes(bytes)].join(" · ");
    return treeItem(this.id, {
      label,
      description,
      icon: ICONS[reason],
      tooltip: [this.name, reasonName(reason), ...(createdAt === undefined ? [] : [fullTime(createdAt)]), whole, file].join("\n"),
      spoken: `${this.name}, ${description}`,
      context: "timeline",
      ...((branch ? branch.lost > 0 : messageCount + checkpointCount > 0) ? { expands: "collapsed" as const } : {}),
    });
  }

  override children(): Promise<TreeNode[]> {
    return checkpointRows(this, this.session, this.session.timelines.log(this.timeline), this.setting, this.branch?.common);
  }
}

/** What a person calls it: what of it the present has not, else what set it aside, and when. */
export function timelineName({ reason, createdAt }: Timeline, branch?: Branch, length = NAMED): string {
  if (branch && branch.lost > 0) {
    return lostInWords(branch, length);
  }
  return createdAt === undefined ? reasonName(reason) : `${reasonName(reason)}, ${relativeTime(createdAt)}`;
}

/** What set a timeline aside. */
export function reasonName(reason: Timeline["reason"]): string {
  switch (reason) {
    case "revert":
      return vscode.l10n.t("Before going back");
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
