/** What features add to the tree. */

import type * as vscode from "vscode";
import type { Log, Span } from "../sessions/log.js";
import type { Session } from "../sessions/session.js";
import type { CheckpointNode, Setting } from "./checkpointNodes.js";
import type { TreeNode } from "./node.js";

/** Where messages are. */
export interface Place {
  readonly session: Session;
  readonly log: Log;
}

/** Of messages, by their indexes; `end` is not in it. */
export interface Range {
  readonly start: number;
  readonly end: number;
}

/** Rows above the checkpoints: what waits for a person. */
export interface RowSource {
  rows?(session: Session): Promise<TreeNode[]>;
  /** Where no session is shown. */
  instead?(): TreeNode[];
  /** Number of what waits in all open sessions, for the badge of the view. */
  waiting?(): number;
}

/** A row among those of checkpoints that is none of one. */
export interface Insert {
  node(parent: TreeNode | undefined, setting: Setting): TreeNode;
}

/** What is drawn of a log: its checkpoints, and rows between them. */
export type Item = Span | Insert;

export function isSpan(item: Item): item is Span {
  return "checkpoint" in item;
}

/** What features do with rows of checkpoints. */
export interface RowPart {
  /** What is drawn of the live log, newest first, given its checkpoints and what other parts have made of them. */
  arrange?(items: readonly Item[], place: Place, refresh: () => void): readonly Item[];
  /** Whether a turn stands open that is not the newest. */
  unfolds?(row: CheckpointNode): boolean;
  /** Words behind the label. */
  facts?(row: CheckpointNode): readonly string[];
  /** What only a screen reader says: the row has signs for it. */
  spoken?(row: CheckpointNode): readonly string[];
  /** Where the editor learns the badge of the row. */
  badge?(row: CheckpointNode): vscode.Uri | undefined;
  /** Undefined: `tooltipToRead` is asked when somebody points at the row. */
  tooltip?(row: CheckpointNode): vscode.MarkdownString | undefined;
  tooltipToRead?(row: CheckpointNode): Promise<vscode.MarkdownString>;
  /** Rows above those of its messages. */
  under?(row: CheckpointNode, refresh: () => void): readonly TreeNode[];
  /** Rows of a range of messages, below a checkpoint or before the first. */
  messages?(parent: TreeNode, place: Place, range: Range, refresh: () => void): Promise<readonly TreeNode[]>;
}

export interface Contributions {
  /** What stands above the rows. */
  readonly lines: (() => string | undefined)[];
  readonly rows: RowSource[];
  readonly parts: RowPart[];
}
