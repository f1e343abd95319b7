/** The tree goes along with the page: the row of what the page shows is selected. */

import type { Session } from "../../core/sessions/session.js";
import { CheckpointNode } from "../../core/tree/checkpointNodes.js";
import type { TreeNode } from "../../core/tree/node.js";
import type { Views } from "../../core/tree/views.js";
import { Disposables } from "../../shared/lifecycle.js";

/** Milliseconds for which the page has to stay at a place: while somebody scrolls, the tree is left alone. */
const STAY = 150;

export class Leading extends Disposables {
  private waiting: NodeJS.Timeout | undefined;

  constructor(private readonly views: Pick<Views, "checkpoints" | "tree">) {
    super();
  }

  /** The page shows this message of the session that the tree shows. */
  to(session: Session, index: number): void {
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => {
      const shown = Math.min(index, session.state.context.messageCount - 1); // beyond the last one: the end
      void this.select(session, shown).catch(() => undefined); // the row may be gone by now
    }, STAY);
  }

  override dispose(): void {
    clearTimeout(this.waiting);
    super.dispose();
  }

  /** Not where several rows are selected to do something with them, and not beyond what has been read of the log. */
  private async select(session: Session, index: number): Promise<void> {
    const { checkpoints: view, tree } = this.views;
    if (this.disposed || !view.visible || tree.filtered || view.selection.length > 1) {
      return;
    }
    const row = rowOf(tree.drawn ?? [], session, index, tree.open);
    if (row && checkpointOf(view.selection[0])?.id !== row.id) {
      await view.reveal(row, { select: true, focus: false, expand: false });
    }
  }
}

/** The row of the checkpoint after which a message stands; where that is a step of a folded turn, the turn. */
function rowOf(rows: readonly TreeNode[], session: Session, index: number, open: ReadonlySet<string>): CheckpointNode | undefined {
  const has = ({ place, span }: CheckpointNode): boolean => place.session === session && span.start <= index && index < span.end;
  for (const turn of rows.filter((row) => row instanceof CheckpointNode)) {
    if (has(turn)) {
      return turn;
    }
    const step = turn.steps().find((row) => row instanceof CheckpointNode && has(row));
    if (step instanceof CheckpointNode) {
      return open.has(turn.id) ? step : turn;
    }
  }
  return undefined;
}

/** The checkpoint that a row is of, or is below. */
function checkpointOf(row: TreeNode | undefined): CheckpointNode | undefined {
  return row === undefined || row instanceof CheckpointNode ? row : checkpointOf(row.parent);
}
