/** Rows of checkpoints, of the live log or of a timeline. */

import * as vscode from "vscode";
import type { Log, Span } from "../sessions/log.js";
import type { Session } from "../sessions/session.js";
import { readSettings } from "../../shared/settings.js";
import { summaryOf } from "../../shared/spanSummary.js";
import { listed, messages } from "../../shared/text/format.js";
import { checkpointName, happenedIcon, wholeName } from "../../shared/text/happened.js";
import { labelsOf } from "../../shared/text/telling.js";
import { MoreNode, TreeNode, treeItem } from "./node.js";
import { isSpan, type Item, type Place, type Range, type RowPart } from "./parts.js";

/** What rows need besides their data. */
export interface Setting {
  /** Only these checkpoints are drawn, without their turns. */
  only?: ((span: Span) => boolean) | undefined;
  readonly parts: readonly RowPart[];
  readonly refresh: () => void;
}

/** The facts that all rows of a log share. */
interface Common {
  readonly place: Place;
  /** The beginning of their ids. */
  readonly prefix: string;
  readonly setting: Setting;
  /** Words that tell each row from its neighbours, by the ids of checkpoints. */
  readonly labels: ReadonlyMap<string, string>;
}

function nodeOf(parent: TreeNode | undefined, item: Item, common: Common): TreeNode {
  return isSpan(item) ? new CheckpointNode(parent, item, common) : item.node(parent, common.setting);
}

/**
 * The loaded checkpoints of a log, newest first, in a live one the steps of a turn inside it; then what was before the first one.
 *
 * @param from The messages before it stand elsewhere, and are left out.
 */
export async function checkpointRows(parent: TreeNode | undefined, session: Session, log: Log, setting: Setting, from = 0): Promise<TreeNode[]> {
  const loaded = await log.spans();
  const beginning = log.beginning(loaded);
  const place = { session, log };
  const live = log.timelineId === undefined;
  const { only, parts, refresh } = setting;
  let items: readonly Item[] = loaded.filter(({ end }) => from === 0 || end > from).map((span) => ({ ...span, start: Math.max(span.start, from) }));
  if (live) {
    items = only ? loaded.filter(only) : parts.reduce((before, part) => part.arrange?.(before, place, refresh) ?? before, items);
  }
  const named = items.filter(isSpan).map(({ checkpoint }) => checkpoint);
  const labels = labelsOf(named.map((checkpoint) => ({ name: wholeName(checkpoint), id: checkpoint.id })));
  const common = { place, prefix: parent?.id ?? session.id, setting, labels: new Map(named.map(({ uid }, at) => [uid, labels[at] ?? ""])) };
  const nodes = live && !only ? turnRows(parent, items, common) : items.map((item) => nodeOf(parent, item, common));
  if (live && only) {
    return nodes; // all of the log has been looked through
  }
  if (log.hasMore && (loaded.at(-1)?.start ?? 0) >= from) {
    nodes.push(
      new MoreNode(parent, vscode.l10n.t("Show More"), async () => {
        await log.more();
        refresh();
      }),
    );
  } else if (beginning && beginning.end > from) {
    nodes.push(new BeginningNode(parent, { start: from, end: beginning.end }, common));
  }
  return nodes;
}

/** Kinds of spans that are no steps of what came before. */
const BEGINNINGS: readonly (string | undefined)[] = ["prompt", "compacted", "dmail"];

function begins({ checkpoint }: Span): boolean {
  return checkpoint.label !== undefined || BEGINNINGS.includes(summaryOf(checkpoint)?.kind);
}

/** A turn begins with a prompt, or a place that somebody named, and has the steps after it. What was set aside after its last step stands beside it. */
function turnRows(parent: TreeNode | undefined, items: readonly Item[], common: Common): TreeNode[] {
  const rows: TreeNode[] = [];
  let after: Item[] = [];
  let newest = true;
  for (const item of items) {
    if (!isSpan(item) || !begins(item)) {
      after.push(item);
      continue;
    }
    const first = after.findIndex(isSpan);
    const steps = first === -1 ? [] : after.splice(first);
    rows.push(...after.map((one) => nodeOf(parent, one, common)), new CheckpointNode(parent, item, common, steps, newest));
    after = [];
    newest = false;
  }
  return [...rows, ...after.map((one) => nodeOf(parent, one, common))];
}

export class CheckpointNode extends TreeNode {
  constructor(
    parent: TreeNode | undefined,
    readonly span: Span,
    private readonly common: Common,
    /** Where it begins a turn: what is inside beside the messages of its prompt, newest first. */
    private readonly inside: readonly Item[] = [],
    private readonly newest = false,
  ) {
    super(parent, `${common.prefix}/${span.checkpoint.uid}`);
  }

  get place(): Place {
    return this.common.place;
  }

  /** Its own span and those of the steps in it. */
  spans(): Span[] {
    return [...this.inside.filter(isSpan), this.span];
  }

  /** The rows of the steps in it, newest first. */
  steps(): TreeNode[] {
    return this.inside.map((item) => nodeOf(this, item, this.common));
  }

  /** What a person calls it. */
  get name(): string {
    return checkpointName(this.span.checkpoint);
  }

  item(): vscode.TreeItem {
    const { checkpoint } = this.span;
    const { place, setting: { parts }, labels } = this.common;
    const facts = parts.flatMap((part) => part.facts?.(this) ?? []);
    const spoken = [...parts.flatMap((part) => part.spoken?.(this) ?? []), ...facts];
    const badge = parts.map((part) => part.badge?.(this)).find((uri) => uri !== undefined);
    const tooltip = parts.map((part) => part.tooltip?.(this)).find((text) => text !== undefined);
    const unfolded = this.inside.length > 0 && (this.newest || parts.some((part) => part.unfolds?.(this)));
    return treeItem(this.id, {
      label: labels.get(checkpoint.uid) ?? "",
      ...(facts.length === 0 ? {} : { description: facts.join(" · ") }),
      ...(badge ? { badge } : {}),
      ...happenedIcon(checkpoint),
      ...(tooltip ? { tooltip } : {}),
      spoken: `${vscode.l10n.t("Checkpoint {0}", checkpoint.id)}: ${listed([this.name, spoken.join(" · ")])}`,
      context: place.log.timelineId === undefined ? "checkpoint" : "timelineCheckpoint",
      command: openHere(this),
      ...(this.opens() ? { expands: unfolded ? "Expanded" : "Collapsed" } : {}),
    });
  }

  private opens(): boolean {
    return this.span.end > this.span.start || this.inside.length > 0 || this.added().length > 0;
  }

  /** What features add, and, in the order of the tree, the steps of a turn and the messages of its prompt. */
  override async children(): Promise<TreeNode[]> {
    const rows = await messagesUnder(this, this.span, this.common);
    const steps = this.steps();
    return [...this.added(), ...(readSettings().order === "oldestFirst" ? [...rows, ...steps.reverse()] : [...steps, ...rows])];
  }

  private added(): readonly TreeNode[] {
    const { parts, refresh } = this.common.setting;
    return parts.flatMap((part) => part.under?.(this, refresh) ?? []);
  }

  override tooltipToRead(): Promise<vscode.MarkdownString | undefined> {
    const asked = this.common.setting.parts.map((part) => part.tooltipToRead?.(this)).find((text) => text !== undefined);
    return asked ?? Promise.resolve(undefined);
  }
}

/** The messages before the first checkpoint. */
export class BeginningNode extends TreeNode {
  constructor(
    parent: TreeNode | undefined,
    readonly span: Range,
    private readonly common: Common,
  ) {
    super(parent, `${common.prefix}/beginning`);
  }

  get place(): Place {
    return this.common.place;
  }

  item(): vscode.TreeItem {
    return treeItem(this.id, {
      label: vscode.l10n.t("Beginning"),
      description: messages(this.span.end - this.span.start),
      icon: "debug-start",
      context: "beginning",
      command: openHere(this),
      expands: "Collapsed",
    });
  }

  override children(): Promise<TreeNode[]> {
    return messagesUnder(this, this.span, this.common);
  }
}

async function messagesUnder(node: TreeNode, range: Range, { place, setting: { parts, refresh } }: Common): Promise<TreeNode[]> {
  const rows = await Promise.all(parts.map((part) => part.messages?.(node, place, range, refresh) ?? Promise.resolve([])));
  return rows.flat();
}

/** A click shows the conversation from there; the row opens by its twistie. */
function openHere(node: TreeNode): vscode.Command {
  return { command: "timeleap.openConversation", title: "", arguments: [node] };
}
