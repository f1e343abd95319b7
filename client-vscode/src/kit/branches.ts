/** Rows of what was set aside: a branch stands where it left the present, folded up. */

import * as vscode from "vscode";
import type { Timeline } from "timeleap-client";
import type { Workbench } from "../core/commands/register.js";
import { thereIsNone } from "../core/commands/report.js";
import { writableSession } from "../core/commands/targets.js";
import { notPresent, restore } from "../core/restore/timeTravel.js";
import type { Session } from "../core/sessions/session.js";
import { timelinesOf, type Branch } from "./timelines.js";
import { age, bytes as sizeInBytes, checkpoints, fullTime, listed, messages, relativeTime } from "../shared/text/format.js";
import { lostInWords } from "../shared/text/happened.js";
import { checkpointRows, type Setting } from "../core/tree/checkpointNodes.js";
import { titleOf } from "../shared/text/titles.js";
import { TreeNode, treeItem } from "../core/tree/node.js";
import { headed } from "../shared/text/detail.js";

/** Characters of the first and of the last message in a row, which the editor cuts, and in a list. */
const ROW = 120;
const NAMED = 30;

const ICONS: Readonly<Record<Timeline["reason"], string>> = {
  revert: "discard",
  clear: "clear-all",
  compact: "fold",
  fold: "fold",
  restore: "history",
  dmail: "mail",
  external: "sync",
  import: "cloud-download",
  unknown: "archive",
};

export class TimelineNode extends TreeNode {
  constructor(
    readonly session: Session,
    readonly timeline: Timeline,
    /** What it has that the present has not; undefined: not known, and it is shown whole. */
    private readonly branch: Branch | undefined,
    private readonly setting: Setting,
    parent?: TreeNode,
    /** Whether another one in sight has the same name: then its number stands in front. */
    private readonly alike = false,
  ) {
    super(parent, `${session.id}/${timeline.timelineId}`);
  }

  get name(): string {
    return timelineName(this.timeline, this.branch, NAMED);
  }

  item(): vscode.TreeItem {
    const { createdAt, messageCount, checkpointCount, file, bytes, reason } = this.timeline;
    const { branch } = this;
    const facts = branch ? [reasonName(reason)] : [messages(messageCount), checkpoints(checkpointCount)];
    const label = `${this.alike ? `${numberOf(this.timeline)} ` : ""}${branchLabel(this.timeline, branch)}`;
    const description = [createdAt === undefined ? "" : age(createdAt), ...facts].filter(Boolean).join(" · ");
    const whole = [messages(messageCount), checkpoints(checkpointCount), sizeInBytes(bytes)].join(" · ");
    return treeItem(this.id, {
      label,
      description,
      icon: ICONS[reason],
      tooltip: [this.name, reasonName(reason), ...(createdAt === undefined ? [] : [fullTime(createdAt)]), whole, file].join("\n"),
      spoken: headed(reasonName(reason), listed([this.name, createdAt === undefined ? "" : age(createdAt)])),
      context: "timeline",
      expands: "Collapsed",
    });
  }

  /** It takes the place of the present log. */
  override restore(bench: Workbench): Promise<void> {
    return restoreTimeline(bench, this);
  }

  override children(): Promise<TreeNode[]> {
    return checkpointRows(this, this.session, timelinesOf(this.session).log(this.timeline), this.setting, this.branch?.common);
  }
}

/** What of it the present has not, else what set it aside. */
export function branchLabel({ reason }: Timeline, branch: Branch | undefined): string {
  return (branch ? lostInWords(counting(reason, branch), ROW) : "") || reasonName(reason);
}

/** "#3", of `context_3`. */
function numberOf({ timelineId }: Timeline): string {
  return `#${/\d+$/u.exec(timelineId)?.[0] ?? timelineId}`;
}

/** A compaction says itself how many messages became its summary; those that it kept stand in the timeline, too, and are no loss. */
function counting(reason: Timeline["reason"], branch: Branch): Branch {
  return reason === "compact" || reason === "fold" ? { ...branch, lost: 0 } : branch;
}

/** What a person calls it: what of it the present has not, else what set it aside, and when. */
export function timelineName({ reason, createdAt }: Timeline, branch?: Branch, length = NAMED): string {
  const said = branch && branch.lost > 0 && lostInWords(counting(reason, branch), length);
  if (said) {
    return said;
  }
  return listed([reasonName(reason), createdAt === undefined ? "" : relativeTime(createdAt)]);
}

/** What set a timeline aside. */
export function reasonName(reason: Timeline["reason"]): string {
  switch (reason) {
    case "revert":
    case "restore":
      return vscode.l10n.t("Before a restore");
    case "external":
    case "dmail":
      return vscode.l10n.t("Before going back");
    case "clear":
      return vscode.l10n.t("Before clearing");
    case "compact":
      return vscode.l10n.t("Before a compaction");
    case "fold":
      return vscode.l10n.t("Before a fold");
    case "import":
    case "unknown":
      return vscode.l10n.t("Earlier log");
  }
}

/** @param row The timeline; undefined: one is chosen. */
export async function restoreTimeline(bench: Workbench, row: TimelineNode | undefined): Promise<void> {
  const session = writableSession(bench.sessions);
  if (row && row.session !== session) {
    throw notPresent();
  }
  const timeline = row?.timeline ?? (await pickTimeline(session, titleOf("restoreTimeline")));
  if (timeline) {
    await restore(bench, session, timeline.timelineId, timelineName(timeline));
  }
}

/** One of the loaded timelines, newest first. */
async function pickTimeline(session: Session, title: string): Promise<Timeline | undefined> {
  const known = timelinesOf(session);
  const timelines = await known.list();
  if (timelines.length === 0) {
    throw thereIsNone(title);
  }
  const items = timelines.map((timeline) => ({ label: timelineName(timeline, known.known(timeline)), description: timelineName(timeline), timeline }));
  return (await vscode.window.showQuickPick(items, { title }))?.timeline;
}
