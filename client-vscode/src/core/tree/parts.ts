/** What features add to the tree. */

import type * as vscode from "vscode";
import type { Log } from "../sessions/log.js";
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

/** What rows of checkpoints have beside their names. */
export interface RowPart {
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

/** What left the log: it stands above the newest message that both have. */
export interface Aside {
  /** How many messages both have. */
  readonly common: number;
  /** All that can be seen of it. */
  readonly looks: string;
  node(parent: TreeNode | undefined, setting: Setting): TreeNode;
}

export interface AsideSource {
  of(session: Session): Promise<readonly Aside[]>;
  /** A row below all that shows older ones; undefined: there are none. */
  more(session: Session, refresh: () => void): TreeNode | undefined;
}

export interface Contributions {
  /** What stands above the rows. */
  readonly lines: (() => string | undefined)[];
  readonly rows: RowSource[];
  readonly parts: RowPart[];
  asides?: AsideSource;
}
