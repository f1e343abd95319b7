/** Rows of checkpoints, of the live log or of a timeline. */

import * as vscode from "vscode";
import type { Log, Span } from "../sessions/log.js";
import type { Session } from "../sessions/session.js";
import { exact, files, fullTime, listed, messages, oneLine, relativeTime, short } from "../text/format.js";
import { ChangedFilesNode } from "./fileNodes.js";
import { messageRows, type Place, type Shown } from "./messageNodes.js";
import { MoreNode, TreeNode, treeItem } from "./node.js";

/** Characters of a name. */
const NAME = 50;

/** What rows need besides their data. */
export interface Setting {
  readonly shown: Shown;
  /** Rows made before: most are as they were, however many there are. */
  readonly known: WeakMap<Span["checkpoint"], CheckpointNode>;
  readonly refresh: () => void;
}

export function newSetting(refresh: () => void): Setting {
  return { shown: new Map(), known: new WeakMap(), refresh };
}

/** The loaded checkpoints of a log, newest first, then what was before the first one. */
export async function checkpointRows(parent: TreeNode | undefined, session: Session, log: Log, setting: Setting): Promise<TreeNode[]> {
  const place = { session, log };
  const prefix = parent?.id ?? session.id;
  const spans = await log.spans();
  const beginning = log.beginning(spans);
  const nodes: TreeNode[] = spans.map((span) => {
    const fresh = new CheckpointNode(parent, prefix, place, span, setting);
    const before = setting.known.get(span.checkpoint);
    const node = before?.isAs(fresh) ? before : fresh;
    setting.known.set(span.checkpoint, node);
    return node;
  });
  if (log.hasMore) {
    nodes.push(
      new MoreNode(parent, vscode.l10n.t("Show older checkpoints"), async () => {
        await log.more();
        setting.refresh();
      }),
    );
  } else if (beginning) {
    nodes.push(new BeginningNode(parent, prefix, place, beginning, setting));
  }
  return nodes;
}

export class CheckpointNode extends TreeNode {
  readonly id: string;
  /** How old it is, what was added since the one before, and whether a note is on its way to it. */
  private readonly facts: string;

  constructor(
    parent: TreeNode | undefined,
    prefix: string,
    readonly place: Place,
    readonly span: Span,
    private readonly setting: Setting,
  ) {
    super(parent);
    this.id = `${prefix}/${span.checkpoint.uid}`;
    const { createdAt } = span.checkpoint;
    this.facts = [createdAt === undefined ? "" : relativeTime(createdAt), this.growth(), this.waiting(), this.unsaved()].filter(Boolean).join(" · ");
  }

  /** Whether it can stand for another one. */
  isAs({ id, parent, place, span, facts }: CheckpointNode): boolean {
    const { session, log } = this.place;
    const { previous, start, end } = this.span;
    const sameSpan = span.previous === previous && span.start === start && span.end === end && sameFiles(span, this.span);
    return this.id === id && this.parent === parent && session === place.session && log === place.log && sameSpan && this.facts === facts;
  }

  /** What a person calls it. */
  get name(): string {
    return checkpointName(this.span.checkpoint);
  }

  item(): vscode.TreeItem {
    const { checkpoint } = this.span;
    return treeItem(this.id, {
      label: this.name,
      description: this.facts,
      icon: isDMailLabel(checkpoint.label) ? "mail-read" : checkpoint.label === undefined ? "circle-outline" : "bookmark",
      tooltip: this.tooltip(),
      spoken: vscode.l10n.t("Checkpoint {0}: {1}, {2}", checkpoint.id, this.name, this.facts),
      context: this.place.log.timelineId === undefined ? "checkpoint" : "timelineCheckpoint",
      ...(this.span.end > this.span.start || this.changed() ? { expands: "collapsed" as const } : {}),
    });
  }

  override async children(): Promise<TreeNode[]> {
    const rows = await messageRows(this, this.place, this.span, this.setting.shown, this.setting.refresh);
    const changed = this.changed();
    return changed ? [changed, ...rows] : rows;
  }

  /** The row of the files that changed in it; undefined: nothing is known of them, or none did. */
  private changed(): ChangedFilesNode | undefined {
    const { checkpoint, next } = this.span;
    const { session, log } = this.place;
    const from = checkpoint.files?.snapshot;
    const to = next?.files?.snapshot;
    // What came after the last checkpoint of a timeline is not on the disk any more.
    if (from === undefined || (to === undefined && (next !== undefined || log.timelineId !== undefined))) {
      return undefined;
    }
    // With snapshots at the ends of turns the next checkpoint's count is what came after the last of them.
    const count = session.state.files?.mode === "turn" ? undefined : next?.files?.changed;
    return count === 0 ? undefined : new ChangedFilesNode(this, { session, from, to }, count, this.setting.refresh);
  }

  /** Messages and tokens since the checkpoint before it; for the first, since the beginning. */
  private growth(): string {
    const { checkpoint, previous } = this.span;
    if (!previous && this.place.log.hasMore) {
      return "";
    }
    const more = checkpoint.messageCount - (previous?.messageCount ?? 0);
    const tokens = checkpoint.tokenCount - (previous?.tokenCount ?? 0);
    const changed = checkpoint.files?.changed ?? 0;
    const grown = [more === 0 ? "" : `+${messages(more)}`, changed === 0 ? "" : vscode.l10n.t("{0} changed", files(changed))];
    if (tokens !== 0) {
      grown.push(vscode.l10n.t("{0} tokens", `${tokens > 0 ? "+" : "−"}${short(Math.abs(tokens))}`));
    }
    return listed(grown);
  }

  /** Whether a note is on its way here. */
  private waiting(): string {
    const { session, log } = this.place;
    const here = log.timelineId === undefined && session.state.pendingDMail?.checkpointUid === this.span.checkpoint.uid;
    return here ? vscode.l10n.t("a D-Mail waits") : "";
  }

  /** Where the view says for the whole session why no files are saved, no row does. */
  private unsaved(): string {
    const failed = this.span.checkpoint.files?.error !== undefined && this.place.session.state.files?.problem === undefined;
    return failed ? vscode.l10n.t("files not saved") : "";
  }

  private tooltip(): vscode.MarkdownString {
    const { checkpoint, start, end } = this.span;
    const text = new vscode.MarkdownString();
    text.appendText(checkpoint.label ?? checkpoint.preview ?? this.name).appendMarkdown("\n\n");
    const rows: [string, string][] = [
      [vscode.l10n.t("Checkpoint"), `#${exact(checkpoint.id)}`],
      [vscode.l10n.t("Written"), checkpoint.createdAt === undefined ? vscode.l10n.t("unknown") : fullTime(checkpoint.createdAt)],
      [vscode.l10n.t("Messages before it"), exact(checkpoint.messageCount)],
      [vscode.l10n.t("Messages in it"), exact(end - start)],
      [vscode.l10n.t("Tokens at it"), exact(checkpoint.tokenCount)],
      ...filesInTooltip(checkpoint),
    ];
    return text.appendMarkdown(["| | |", "|---|---|", ...rows.map(([name, value]) => `| ${name} | ${value} |`)].join("\n"));
  }
}

/** Whether the same files changed in both: those between the same snapshots. */
function sameFiles(one: Span, other: Span): boolean {
  const snapshot = one.checkpoint.files?.snapshot;
  const both = snapshot === other.checkpoint.files?.snapshot;
  return both && (snapshot === undefined || one.next?.files?.snapshot === other.next?.files?.snapshot);
}

function filesInTooltip({ files: saved }: Span["checkpoint"]): [string, string][] {
  if (saved?.error) {
    return [[vscode.l10n.t("Files"), vscode.l10n.t("not saved: {0}", cell(saved.error.message))]];
  }
  if (saved?.snapshot === undefined) {
    return [];
  }
  const skipped = saved.skipped ?? 0;
  return [[vscode.l10n.t("Files"), listed([vscode.l10n.t("saved"), skipped === 0 ? "" : vscode.l10n.t("{0} left out", files(skipped))])]];
}

/** As text in a table. */
function cell(text: string): string {
  return oneLine(text, 200).replace(/[\\`*_{}[\]()#+\-.!|<>~&]/gu, "\\$&");
}

/** How the server labels the checkpoint before a note that has arrived. */
function isDMailLabel(label: string | undefined): boolean {
  return label !== undefined && /^D-Mail( from .+)?$/u.test(label);
}

/** Its label, else the first words after it: few enough that what stands behind the name can be seen too. */
export function checkpointName({ id, label, preview }: Span["checkpoint"]): string {
  return oneLine(label ?? "", NAME) || oneLine(preview ?? "", NAME) || vscode.l10n.t("Checkpoint {0}", `#${id}`);
}

/** The messages before the first checkpoint. */
export class BeginningNode extends TreeNode {
  readonly id: string;

  constructor(
    parent: TreeNode | undefined,
    prefix: string,
    readonly place: Place,
    readonly span: { readonly start: number; readonly end: number },
    private readonly setting: Setting,
  ) {
    super(parent);
    this.id = `${prefix}/beginning`;
  }

  item(): vscode.TreeItem {
    return treeItem(this.id, {
      label: vscode.l10n.t("Beginning"),
      description: messages(this.span.end),
      icon: "debug-start",
      tooltip: vscode.l10n.t("The messages before the first checkpoint"),
      context: "beginning",
      expands: "collapsed",
    });
  }

  override children(): Promise<TreeNode[]> {
    return messageRows(this, this.place, this.span, this.setting.shown, this.setting.refresh);
  }
}
