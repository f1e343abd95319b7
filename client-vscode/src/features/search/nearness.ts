/** Going to one row among thousands: a tree of all of them takes long to draw each time something is written. */

import * as vscode from "vscode";
import type { Session } from "../../core/sessions/session.js";
import { CheckpointNode } from "../../core/tree/checkpointNodes.js";
import type { CheckpointsTree } from "../../core/tree/checkpointsTree.js";
import { MoreNode } from "../../core/tree/node.js";
import { isSpan, type Insert, type Item, type Place, type RowPart } from "../../core/tree/parts.js";
import { checkpoints } from "../../shared/text/format.js";

/** Rows on either side of the one that was gone to. */
const REACH = 50;
/** The newest rows, which are drawn at any rate, and those that are drawn more when somebody asks for them. */
const NEWEST = 100;

export class Nearness implements RowPart {
  private by: { readonly session: Session; readonly uid: string; readonly reach: number } | undefined;

  /** Draws what is near a checkpoint, however far back it is. Resolves with its row; undefined: it is not drawn now. */
  async row(tree: CheckpointsTree, session: Session, uid: string): Promise<CheckpointNode | undefined> {
    this.by = { session, uid, reach: REACH };
    await tree.renew();
    const turns = (tree.drawn ?? (await tree.getChildren())).filter((row) => row instanceof CheckpointNode);
    return turns.flatMap((turn) => [turn, ...turn.steps()]).find((row) => row instanceof CheckpointNode && row.span.checkpoint.uid === uid) as CheckpointNode | undefined;
  }

  /** The newest rows, and those near the one that was gone to. */
  arrange(items: readonly Item[], { session }: Place, refresh: () => void): readonly Item[] {
    const near = this.by?.session === session ? this.by : undefined;
    const at = near ? items.findIndex((item) => isSpan(item) && item.checkpoint.uid === near.uid) : -1;
    if (!near || at < NEWEST + near.reach) {
      return items;
    }
    const [from, to] = [at - near.reach, at + near.reach];
    const gap = (left: readonly Item[]): Insert[] => this.gap(left.filter(isSpan).length, refresh);
    return [...items.slice(0, NEWEST), ...gap(items.slice(NEWEST, from)), ...items.slice(from, to), ...gap(items.slice(to))];
  }

  /** The turn in which it is. */
  unfolds(row: CheckpointNode): boolean {
    return row.spans().some((span) => span !== row.span && span.checkpoint.uid === this.by?.uid);
  }

  /** Stands for rows that are left out. */
  private gap(count: number, refresh: () => void): Insert[] {
    const show = (): Promise<void> => {
      this.by &&= { ...this.by, reach: this.by.reach + NEWEST };
      refresh();
      return Promise.resolve();
    };
    const label = vscode.l10n.t("… and {0} more", checkpoints(count));
    return count === 0 ? [] : [{ node: (parent) => new MoreNode(parent, label, show, `gap${String(count)}`) }];
  }
}
