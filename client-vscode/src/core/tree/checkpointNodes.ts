/** Rows of checkpoints, of the live log or of a timeline. */

import * as vscode from "vscode";
import type { Log, Span } from "../sessions/log.js";
import type { Session } from "../sessions/session.js";
import { readSettings } from "../../shared/settings.js";
import { summaryOf } from "../../shared/spanSummary.js";
import { checkpoints, messages } from "../../shared/text/format.js";
import { checkpointName, happenedIcon, wholeName } from "../../shared/text/happened.js";
import { labelsOf } from "../../shared/text/telling.js";
import { MoreNode, TreeNode, treeItem } from "./node.js";
import type { Aside, Place, Range, RowPart } from "./parts.js";

/** What rows need besides their data. */
export interface Setting {
  /** Among many rows the newest are drawn, and those near this checkpoint. */
  near?: { readonly uid: string; readonly reach: number };
  /** Only rows that open to one of these messages are drawn. */
  only?: readonly number[];
  readonly parts: readonly RowPart[];
  /** Rows made before: most are as they were, however many there are. */
  readonly known: WeakMap<Span["checkpoint"], CheckpointNode>;
  readonly refresh: () => void;
}

export function newSetting(parts: readonly RowPart[], refresh: () => void): Setting {
  return { parts, known: new WeakMap(), refresh };
}

/** What is drawn of a log: spans, what left it there, and numbers of spans that are left out between them. */
type Item = Span | Aside | number;
type Make = (parent: TreeNode | undefined, item: Item) => TreeNode;

function isSpan(item: Item): item is Span {
  return typeof item !== "number" && "checkpoint" in item;
}

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
    if (!isSpan(item)) {
      return item.node(under, setting);
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
  const left = [...asides].sort((one, other) => other.common - one.common);
  const items: Item[] = [];
  for (const span of spans) {
    while (typeof span !== "number" && left[0] && left[0].common > span.start) {
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
    if (isSpan(item) && begins(item)) {
      const steps = after.slice(0, -1);
      const first = steps.findIndex(isSpan);
      const inside = first === -1 ? [] : steps.slice(first);
      const sought = inside.some((step) => isSpan(step) && step.checkpoint.uid === near?.uid);
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
  private readonly facts: readonly string[];
  private readonly badge: vscode.Uri | undefined;
  /** All of what the row shows that is not in its span. */
  private readonly looks: string;

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
    const { parts } = setting;
    this.id = `${prefix}/${span.checkpoint.uid}`;
    this.facts = parts.flatMap((part) => part.facts?.(this) ?? []);
    this.badge = parts.map((part) => part.badge?.(this)).find((badge) => badge !== undefined);
    const differs = parts.map((part) => [part.spoken?.(this), part.differs?.(this)]);
    this.looks = JSON.stringify([label, this.facts, this.badge?.query, differs, this.inside?.items.length === 0, this.inside?.unfolded]);
  }

  /** Becomes what another node of the same row is made of. */
  follow({ parent, inside }: CheckpointNode): void {
    this.parent = parent;
    if (inside) {
      this.inside = inside;
    }
  }

  /** Its own span and those of the steps in it. */
  spans(): Span[] {
    return [...(this.inside?.items ?? []).filter(isSpan), this.span];
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
    const sameSpan = span.checkpoint === checkpoint && span.start === start && span.end === end;
    return this.id === id && this.parent?.id === parent?.id && session === place.session && log === place.log && sameSpan && this.looks === looks;
  }

  /** What a person calls it. */
  get name(): string {
    return checkpointName(this.span.checkpoint);
  }

  item(): vscode.TreeItem {
    const { checkpoint } = this.span;
    const { parts } = this.setting;
    const spoken = [...parts.flatMap((part) => part.spoken?.(this) ?? []), ...this.facts];
    const tooltip = parts.map((part) => part.tooltip?.(this)).find((text) => text !== undefined);
    return treeItem(this.id, {
      label: this.label,
      ...(this.facts.length === 0 ? {} : { description: this.facts.join(" · ") }),
      ...(this.badge ? { badge: this.badge } : {}),
      ...happenedIcon(checkpoint),
      ...(tooltip ? { tooltip } : {}),
      spoken: vscode.l10n.t("Checkpoint {0}: {1}, {2}", checkpoint.id, this.name, spoken.join(" · ")),
      context: this.place.log.timelineId === undefined ? "checkpoint" : "timelineCheckpoint",
      command: openHere(this),
      ...(this.opens() ? { expands: this.inside?.unfolded && this.inside.items.length > 0 ? "expanded" : "collapsed" } : {}),
    });
  }

  private opens(): boolean {
    return this.span.end > this.span.start || this.added().length > 0 || (this.inside?.items.length ?? 0) > 0;
  }

  /** What features add, and, in the order of the tree, the steps of a turn and the messages of its prompt. */
  override async children(): Promise<TreeNode[]> {
    const rows = await messagesUnder(this, this.place, this.span, this.setting);
    const steps = this.steps();
    return [...this.added(), ...(readSettings().order === "oldestFirst" ? [...rows, ...steps.reverse()] : [...steps, ...rows])];
  }

  private added(): readonly TreeNode[] {
    const { parts, refresh } = this.setting;
    return parts.flatMap((part) => part.under?.(this, refresh) ?? []);
  }

  override tooltipToRead(): Promise<vscode.MarkdownString | undefined> {
    const asked = this.setting.parts.map((part) => part.tooltipToRead?.(this)).find((text) => text !== undefined);
    return asked ?? Promise.resolve(undefined);
  }
}

/** The messages before the first checkpoint. */
export class BeginningNode extends TreeNode {
  readonly id: string;

  constructor(
    parent: TreeNode | undefined,
    prefix: string,
    readonly place: Place,
    readonly span: Range,
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
      context: "beginning",
      command: openHere(this),
      expands: "collapsed",
    });
  }

  override children(): Promise<TreeNode[]> {
    return messagesUnder(this, this.place, this.span, this.setting);
  }
}

async function messagesUnder(node: TreeNode, place: Place, range: Range, { parts, refresh }: Setting): Promise<TreeNode[]> {
  const rows = await Promise.all(parts.map((part) => part.messages?.(node, place, range, refresh) ?? Promise.resolve([])));
  return rows.flat();
}

/** A click shows the conversation from there; the row opens by its twistie. */
function openHere(node: TreeNode): vscode.Command {
  return { command: "timeleap.openConversation", title: "", arguments: [node] };
}
