/** The view of the shown session's live log. */

import type * as vscode from "vscode";
import type { Session } from "../sessions/session.js";
import type { Sessions } from "../sessions/sessions.js";
import { readSettings } from "../../shared/settings.js";
import { CheckpointNode, checkpointRows, newSetting } from "./checkpointNodes.js";
import type { TreeNode } from "./node.js";
import { NodeTree } from "./tree.js";

/** Rows that a feature puts above the checkpoints: what waits for a person. */
export interface RowSource {
  readonly onDidChange?: vscode.Event<unknown>;
  rows(session: Session): Promise<TreeNode[]>;
  /** Number of what waits in all open sessions, for the badge of the view. */
  waiting?(): number;
}

/** Rows on either side of one that was gone to. */
const REACH = 50;

export class CheckpointsTree extends NodeTree {
  private readonly setting = newSetting(() => this.refresh());

  constructor(
    private readonly sessions: Sessions,
    /** Whether there is a server; resolves when the session to show, if any, is open. */
    private readonly ready: () => Promise<boolean>,
    private readonly sources: readonly RowSource[] = [],
  ) {
    super();
  }

  /** Draws what is near a checkpoint, however far back it is. Resolves with its row; undefined: it is not drawn now. */
  async near(uid: string): Promise<CheckpointNode | undefined> {
    this.setting.near = { uid, reach: REACH };
    await this.renew();
    return (await this.getChildren()).find((row) => row instanceof CheckpointNode && row.span.checkpoint.uid === uid) as CheckpointNode | undefined;
  }

  /** Draws only the checkpoints after which one of these messages stands. */
  only(indexes: readonly number[] | undefined): void {
    if (indexes) {
      this.setting.only = indexes;
    } else {
      delete this.setting.only;
    }
    this.refresh();
  }

  override restart(): void {
    delete this.setting.near;
    delete this.setting.only;
    super.restart();
  }

  protected async roots(): Promise<TreeNode[]> {
    const session = (await this.ready()) ? this.sessions.shown : undefined;
    if (!session) {
      return [];
    }
    const rows = await checkpointRows(undefined, session, session.log, this.setting);
    if (readSettings().order === "oldestFirst") {
      rows.reverse();
    }
    const waiting = await Promise.all(this.sources.map((source) => source.rows(session)));
    return [...waiting.flat(), ...rows];
  }
}
