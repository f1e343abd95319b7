/** Rows of checkpoints, of the live log or of a timeline. */

import * as vscode from "vscode";
import type { Log, Span } from "../sessions/log.js";
import type { Session } from "../sessions/session.js";
import type { Aside } from "../sessions/timelines.js";
import { readSettings } from "../../shared/settings.js";
import { summaryOf } from "../../shared/spanSummary.js";
import { withDetail } from "../../shared/text/detail.js";
import { checkpoints, exact, files, fullTime, listed, messages, oneLine, relativeTime, tokensReported } from "../../shared/text/format.js";
import { callInWords, checkpointName, failures, grownInWords, happenedIcon, wholeName, type Growth } from "../../shared/text/happened.js";
import { gistOf } from "../../shared/text/message.js";
import { labelsOf } from "../../shared/text/telling.js";
import { badgeUri, type Badge } from "./badges.js";
import { TimelineNode } from "./branches.js";
import { ChangedFilesNode } from "./fileNodes.js";
import { messageRows, type Place, type Shown } from "./messageNodes.js";
import { MoreNode, TreeNode, treeItem } from "./node.js";

/** Characters of the text that a tooltip shows. */
const SHOWN = 500;

/** What rows need besides their data. */
export interface Setting {
  /** Among many rows the newest are drawn, and those near this checkpoint. */
  near?: { readonly uid: string; readonly reach: number };
  /** Only rows that open to one of these messages are drawn. */
  only?: readonly number[];
  readonly shown: Shown;
  /** Rows made before: most are as they were, however many there are. */
  readonly known: WeakMap<Span["checkpoint"], CheckpointNode>;
  readonly refresh: () => void;
}

export function newSetting(refresh: () => void): Setting {
  return { shown: new Map(), known: new WeakMap(), refresh };
}

/** What is drawn of a log: spans, what left it there, and numbers of spans that are left out between them. */
type Item = Span | Aside | number;
type Make = (parent: TreeNode | undefined, item: Item) => TreeNode;

interface Extent {
  /** The messages before it stand elsewhere, and are left out. */
  readonly from?: number;
  /** What was set aside, to stand where it left. Absent: the log is shown as it is, without turns. */
  readonly asides?: readonly Aside[];
}

/** The loaded checkpoints of a log, newest first, the steps of a turn inside it; then what was before the first one. */
export async function checkpointRows(parent: TreeNode | undefined, session: Session, log: Log, setting: Setting, { from = 0, asides }: Extent = {}): Promise<TreeNode[]> {
  const place = { session, log };
  const prefix = parent?.id ?? session.id;
  const loaded = await log.spans();
  const beginning = log.beginning(loaded);
  const spans = from === 0 ? loaded : loaded.filter(({ end }) => end > from).map((span) => (span.start < from ? { ...span, start: from } : span));
  const shown = drawn(spans, setting);
  const named = shown.filter((item) => typeof item !== "number");
  const labels = labelsOf(named.map((span) => ({ name: wholeName(span.checkpoint), id: span.checkpoint.id })));
  const labelled = new Map(named.map(({ checkpoint: { uid } }, at) => [uid, labels[at] ?? ""]));
  const make: Make = (under, item) => {
    if (typeof item === "number") {
      return gap(under, item, setting);
    }
    if ("timeline" in item) {
      return new TimelineNode(session, item.timeline, item.branch, setting, under);
    }
    const turn = turns.get(item);
    return known(new CheckpointNode(under, prefix, place, item, setting, labelled.get(item.checkpoint.uid) ?? "", turn && { ...turn, make }), setting);
  };
  const whole = !log.hasMore;
  const { top, turns } = asides && !setting.only ? turnsOf(withAsides(shown, asides, whole), setting) : { top: shown, turns: new Map<Span, Inside>() };
  const nodes = top.map((item) => make(parent, item));
  if (setting.only && log.timelineId === undefined) {
    return nodes; // all of the log has been looked through
  }
  if (log.hasMore && (loaded.at(-1)?.start ?? 0) >= from) {
    nodes.push(
      new MoreNode(parent, vscode.l10n.t("Show older checkpoints"), async () => {
        await log.more();
        setting.refresh();
      }),
    );
  } else if (beginning && beginning.end > from) {
    nodes.push(new BeginningNode(parent, prefix, place, { start: from, end: beginning.end }, setting));
  }
  return nodes;
}

/** The node that was made before for the same checkpoint, where the row is as it was. */
function known(fresh: CheckpointNode, setting: Setting): CheckpointNode {
  const { checkpoint } = fresh.span;
  const before = setting.known.get(checkpoint);
  if (before?.isAs(fresh)) {
    before.follow(fresh);
    return before;
  }
  setting.known.set(checkpoint, fresh);
  return fresh;
}

/** What was set aside stands above the newest message that it shares with the present. `whole`: whether all of the log is there. */
function withAsides(spans: readonly (Span | number)[], asides: readonly Aside[], whole: boolean): Item[] {
  const left = [...asides].sort((one, other) => (other.branch?.common ?? 0) - (one.branch?.common ?? 0));
  const items: Item[] = [];
  for (const span of spans) {
    while (typeof span !== "number" && left[0] && (left[0].branch?.common ?? 0) > span.start) {
      items.push(...left.splice(0, 1));
    }
    items.push(span);
  }
  return whole ? [...items, ...left] : items;
}

/** What is inside a turn beside the messages of its prompt, newest first. */
interface Inside {
  readonly items: readonly Item[];
  /** Whether it is unfolded at first. */
  readonly unfolded: boolean;
}

/** Kinds of spans that are no steps of what came before. */
const BEGINNINGS: readonly (string | undefined)[] = ["prompt", "compacted", "dmail"];

function begins({ checkpoint }: Span): boolean {
  return checkpoint.label !== undefined || BEGINNINGS.includes(summaryOf(checkpoint)?.kind);
}

/** A turn begins with a prompt, or a place that somebody named, and has the steps after it. What was set aside after its last step stands beside it. */
function turnsOf(items: readonly Item[], { near }: Setting): { readonly top: Item[]; readonly turns: ReadonlyMap<Span, Inside> } {
  const top: Item[] = [];
  const turns = new Map<Span, Inside>();
  let after: Item[] = [];
  for (const item of items) {
    after.push(item);
    if (typeof item !== "number" && "checkpoint" in item && begins(item)) {
      const steps = after.slice(0, -1);
      const first = steps.findIndex((step) => typeof step !== "number" && "checkpoint" in step);
      const inside = first === -1 ? [] : steps.slice(first);
      const sought = inside.some((step) => typeof step !== "number" && "checkpoint" in step && step.checkpoint.uid === near?.uid);
      top.push(...steps.slice(0, first === -1 ? undefined : first), item);
      turns.set(item, { items: inside, unfolded: turns.size === 0 || sought });
      after = [];
    }
  }
  return { top: [...top, ...after], turns };
}

/** Rows that are drawn where there are many: a tree of thousands takes long to draw each time something is written. */
const NEWEST = 100;

/** The spans to draw, and numbers of those that are left out between them. */
function drawn(spans: readonly Span[], { near, only }: Setting): (Span | number)[] {
  if (only) {
    return spans.filter(({ start, end }) => only.some((index) => index >= start && index < end));
  }
  const at = near ? spans.findIndex(({ checkpoint }) => checkpoint.uid === near.uid) : -1;
  if (!near || at < NEWEST + near.reach) {
    return [...spans];
  }
  const [from, to] = [at - near.reach, Math.min(spans.length, at + near.reach)];
  const after = spans.length - to;
  return [...spans.slice(0, NEWEST), from - NEWEST, ...spans.slice(from, to), ...(after === 0 ? [] : [after])].filter((one) => one !== 0);
}

function gap(parent: TreeNode | undefined, count: number, setting: Setting): TreeNode {
  const show = (): Promise<void> => {
    if (setting.near) {
      setting.near = { ...setting.near, reach: setting.near.reach + NEWEST };
    }
    setting.refresh();
    return Promise.resolve();
  };
  return new MoreNode(parent, vscode.l10n.t("{0} more", checkpoints(count)), show, `gap${String(count)}`);
}

export class CheckpointNode extends TreeNode {
  readonly id: string;
  /** What is under way, or went wrong, with it. */
  private readonly facts: string;
  /** All of what the row shows that is not in its span. */
  private readonly looks: string;
  private readonly errors: number;

  constructor(
    parent: TreeNode | undefined,
    prefix: string,
    readonly place: Place,
    readonly span: Span,
    private readonly setting: Setting,
    /** What tells it from the rows around it. */
    private readonly label: string,
    /** Where it begins a turn: the steps of that. */
    private inside?: Inside & { readonly make: Make },
  ) {
    super(parent);
    const { checkpoint } = span;
    this.id = `${prefix}/${checkpoint.uid}`;
    this.errors = this.spans().reduce((sum, one) => sum + (summaryOf(one.checkpoint)?.errors ?? 0), 0);
    this.facts = [this.waiting(), this.unsaved()].filter(Boolean).join(" · ");
    this.looks = JSON.stringify([label, this.facts, this.growth(), this.changedCount(), this.errors, this.badge(), this.inside?.items.length === 0, this.inside?.unfolded]);
  }

  /** Becomes what another node of the same row is made of. */
  follow({ parent, inside }: CheckpointNode): void {
    this.parent = parent;
    if (inside) {
      this.inside = inside;
    }
  }

  /** Its own span and those of the steps in it. */
  private spans(): Span[] {
    return [...(this.inside?.items ?? []).filter((item) => typeof item !== "number" && "checkpoint" in item), this.span];
  }

  /** The rows of the steps in it, newest first. */
  steps(): TreeNode[] {
    const { inside } = this;
    return (inside?.items ?? []).map((item) => inside?.make(this, item)).filter((row) => row !== undefined);
  }

  /** Whether it can stand for another one. */
  isAs({ id, parent, place, span, looks }: CheckpointNode): boolean {
    const { session, log } = this.place;
    const { checkpoint, start, end } = this.span;
    const sameSpan = span.checkpoint === checkpoint && span.start === start && span.end === end && sameFiles(span, this.span);
    return this.id === id && this.parent?.id === parent?.id && session === place.session && log === place.log && sameSpan && this.looks === looks;
  }

  /** What a person calls it. */
  get name(): string {
    return checkpointName(this.span.checkpoint);
  }

  item(): vscode.TreeItem {
    const { checkpoint } = this.span;
    const facts = [listed([grownInWords(this.growth()), failures(this.errors)]), this.changedFiles(), this.waiting(), this.unsaved()].filter(Boolean);
    const badge = badgeUri(this.id, this.badge());
    return treeItem(this.id, {
      label: this.label,
      ...(this.facts === "" ? {} : { description: this.facts }),
      ...(badge ? { badge } : {}),
      ...happenedIcon(checkpoint),
      ...(this.isCut() ? {} : { tooltip: this.tooltip() }),
      spoken: vscode.l10n.t("Checkpoint {0}: {1}, {2}", checkpoint.id, this.name, facts.join(" · ")),
      context: this.place.log.timelineId === undefined ? "checkpoint" : "timelineCheckpoint",
      command: openHere(this),
      ...(this.opens() ? { expands: this.inside?.unfolded && this.inside.items.length > 0 ? "expanded" : "collapsed" } : {}),
    });
  }

  private opens(): boolean {
    return this.span.end > this.span.start || this.changed() !== undefined || (this.inside?.items.length ?? 0) > 0;
  }

  /** What changed, and, in the order of the tree, the steps of a turn and the messages of its prompt. */
  override async children(): Promise<TreeNode[]> {
    const rows = await messageRows(this, this.place, this.span, this.setting.shown, this.setting.refresh);
    const changed = this.changed();
    const steps = this.steps();
    const all = readSettings().order === "oldestFirst" ? [...rows, ...steps.reverse()] : [...steps, ...rows];
    return changed ? [changed, ...all] : all;
  }

  private badge(): Badge {
    const changing = this.spans().map((span) => this.changedIn(span) ?? 0).filter((count) => count > 0);
    const [first = 0, ...more] = changing;
    return { failed: this.errors, changed: more.length === 0 ? first : "some", saved: this.span.checkpoint.files?.snapshot !== undefined };
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
    const count = this.changedCount();
    return count === 0 ? undefined : new ChangedFilesNode(this, { session, from, to }, count, this.setting.refresh);
  }

  /** Of the messages that it opens to. */
  private growth(): Growth {
    const spans = this.spans();
    const tokens = spans.map((span) => this.tokensIn(span));
    const known = tokens.filter((count) => count !== undefined);
    const messages = spans.reduce((sum, { start, end }) => sum + end - start, 0);
    return { messages, tokens: known.length < tokens.length ? undefined : known.reduce((sum, count) => sum + count, 0) };
  }

  private tokensIn({ checkpoint, next }: Span): number | undefined {
    const { session, log } = this.place;
    const after = next?.tokenCount ?? (log.timelineId === undefined ? session.state.context.tokenCount : undefined);
    return summaryOf(checkpoint)?.tokens ?? (after === undefined ? undefined : after - checkpoint.tokenCount);
  }

  /** Files that changed in its own span; undefined: not known. */
  private changedCount(): number | undefined {
    return this.changedIn(this.span);
  }

  private changedIn({ next }: Span): number | undefined {
    // With snapshots at the ends of turns the next checkpoint's count is what came after the last of them.
    return this.place.session.state.files?.mode === "turn" ? undefined : next?.files?.changed;
  }

  private changedFiles(): string {
    const changed = this.changedCount() ?? 0;
    return changed === 0 ? "" : vscode.l10n.t("{0} changed", files(changed));
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

  /** With the text beyond what the summary has of it. Where it cannot be read, with that much. */
  override async tooltipToRead(): Promise<vscode.MarkdownString> {
    const { start, end } = this.span;
    await this.place.log.messages(start, end, 1).catch(() => undefined);
    return this.tooltip();
  }

  /** Whether the text goes on in messages that have not been read. */
  private isCut(): boolean {
    const { checkpoint, start, end } = this.span;
    return end > start && summaryOf(checkpoint)?.text.endsWith("…") === true && this.place.log.read(start, end).length === 0;
  }

  private tooltip(): vscode.MarkdownString {
    const { checkpoint, start, end } = this.span;
    const text = new vscode.MarkdownString();
    text.appendText(wholeName(checkpoint)).appendMarkdown("\n\n");
    const said = this.said();
    if (said !== "") {
      text.appendCodeblock(said, "text");
    }
    const growth = this.growth();
    const counted = tokensReported(checkpoint);
    const rows: [string, string][] = [
      [vscode.l10n.t("Checkpoint"), `#${exact(checkpoint.id)}`],
      [vscode.l10n.t("Written"), checkpoint.createdAt === undefined ? vscode.l10n.t("unknown") : `${fullTime(checkpoint.createdAt)} (${relativeTime(checkpoint.createdAt)})`],
      [vscode.l10n.t("Messages before it"), exact(start)],
      [vscode.l10n.t("Messages in it"), exact(end - start)],
      ...(counted === undefined ? [] : [[vscode.l10n.t("Tokens at it"), exact(counted)] satisfies [string, string]]),
      ...(growth.tokens === undefined ? [] : [[vscode.l10n.t("Tokens in it"), exact(growth.tokens)] satisfies [string, string]]),
      ...filesInTooltip(checkpoint),
    ];
    text.appendMarkdown(["| | |", "|---|---|", ...rows.map(([name, value]) => `| ${name} | ${value} |`)].join("\n"));
    return text.appendMarkdown(callsInTooltip(checkpoint));
  }

  /** The beginning of what was said in it: of the messages where they have been read, else of the summary. */
  private said(): string {
    const { checkpoint, start, end } = this.span;
    const read = this.place.log.read(start, end).map(({ message }) => gistOf(message).trim());
    const gist = read.find((text) => text !== "") ?? summaryOf(checkpoint)?.text ?? checkpoint.preview ?? "";
    return gist.length > SHOWN ? `${gist.slice(0, SHOWN).replace(/[\uD800-\uDBFF]$/u, "")}…` : gist;
  }
}

/** Whether the same files changed in both: those between the same snapshots. */
function sameFiles(one: Span, other: Span): boolean {
  const snapshot = one.checkpoint.files?.snapshot;
  const both = snapshot === other.checkpoint.files?.snapshot;
  return both && (snapshot === undefined || one.next?.files?.snapshot === other.next?.files?.snapshot);
}

/** The calls in it with how they ended, and the files that they name. */
function callsInTooltip(checkpoint: Span["checkpoint"]): string {
  const { calls = [], moreCalls = 0, files: named = [] } = summaryOf(checkpoint) ?? {};
  const lines = calls.map((call) => (call.failed ? `✗ ${cell(callInWords(call, 100))}` : cell(callInWords(call, 100))));
  const more = moreCalls === 0 ? [] : [vscode.l10n.t("… {0} more", exact(moreCalls))];
  return [section(vscode.l10n.t("Calls"), [...lines, ...more]), section(vscode.l10n.t("Files named"), named.map(cell))].join("");
}

function section(title: string, lines: readonly string[]): string {
  return lines.length === 0 ? "" : `\n\n**${title}**\n\n${lines.map((line) => `- ${line}`).join("\n")}`;
}

function filesInTooltip({ files: saved }: Span["checkpoint"]): [string, string][] {
  if (saved?.error) {
    return [[vscode.l10n.t("Files"), cell(withDetail(vscode.l10n.t("not saved"), saved.error.message))]];
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
      description: messages(this.span.end - this.span.start),
      icon: "debug-start",
      tooltip: vscode.l10n.t("The messages before the first checkpoint"),
      context: "beginning",
      command: openHere(this),
      expands: "collapsed",
    });
  }

  override children(): Promise<TreeNode[]> {
    return messageRows(this, this.place, this.span, this.setting.shown, this.setting.refresh);
  }
}

/** A click shows the conversation from there; the row opens by its twistie. */
function openHere(node: TreeNode): vscode.Command {
  return { command: "timeleap.openConversation", title: vscode.l10n.t("Open"), arguments: [node] };
}
