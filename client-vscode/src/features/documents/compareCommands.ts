/** Comparing any two states of a session: one is remembered, or both are selected. */

import * as vscode from "vscode";
import type { DiffPoint } from "timeleap-client";
import { uriOf } from "../../shared/reference.js";
import type { Session } from "../../core/sessions/session.js";
import { exact, messages, oneLine } from "../../shared/text/format.js";
import { CheckpointNode } from "../../core/tree/checkpointNodes.js";
import { TimelineNode } from "../../core/tree/timelinesTree.js";
import type { Handlers, Workbench } from "../../core/commands/register.js";
import { Refusal } from "../../core/commands/report.js";

/** A state that can be one side of a comparison. */
interface State {
  readonly session: Session;
  readonly point: DiffPoint;
  readonly timelineId?: string;
  /** Messages that it has. */
  readonly end: number;
  readonly name: string;
}

/** Messages that are the same on both sides and shown nevertheless, for orientation. */
const CONTEXT = 4;

export function compareCommands(bench: Workbench): Handlers {
  let remembered: State | undefined;
  return {
    selectForCompare: (node) => {
      remembered = stateOf(node ?? bench.views.checkpoints.selection[0]);
      bench.views.selectedForCompare();
      return Promise.resolve();
    },
    compareWithSelected: async (node) => {
      if (!remembered) {
        throw new Refusal(vscode.l10n.t("Select something to compare first."));
      }
      await compareStates(remembered, stateOf(node ?? bench.views.checkpoints.selection[0]));
    },
    compareSelected: async () => {
      const [one, other] = bench.views.checkpoints.selection.filter((row) => row instanceof CheckpointNode);
      if (!one || !other) {
        throw new Refusal(vscode.l10n.t("Select two checkpoints first."));
      }
      await compareStates(stateOf(one), stateOf(other));
    },
  };
}

function stateOf(node: unknown): State {
  if (node instanceof TimelineNode) {
    const { session, timeline: { timelineId, messageCount: end }, name } = node;
    return { session, point: { timelineId }, timelineId, end, name: oneLine(name, 40) };
  }
  if (node instanceof CheckpointNode) {
    const { place: { session, log: { timelineId } }, span: { checkpoint: { uid, messageCount: end } }, name } = node;
    return { session, point: { checkpointUid: uid }, ...(timelineId === undefined ? {} : { timelineId }), end, name: oneLine(name, 40) };
  }
  throw new Refusal(vscode.l10n.t("Select a checkpoint or a timeline first."));
}

/** The earlier of two states of one log is the left side, wherever one began. */
async function compareStates(one: State, other: State): Promise<void> {
  if (one.session !== other.session) {
    throw new Refusal(vscode.l10n.t("These two are of different sessions."));
  }
  const [from, to] = one.timelineId === other.timelineId && one.end > other.end ? [other, one] : [one, other];
  const { common, removedCount, addedCount } = await from.session.request("context/diff", { from: from.point, to: to.point, limit: 1, maxBytes: 1 });
  const start = Math.max(0, common - CONTEXT);
  const [left, right] = [from, to].map(({ session, timelineId, end, name }) =>
    uriOf({ session: session.id, selected: { kind: "range", from: start, to: end }, format: "md", title: name, ...(timelineId === undefined ? {} : { timeline: timelineId }) }),
  );
  const counted = vscode.l10n.t("−{0}, +{1}", exact(removedCount), messages(addedCount));
  await vscode.commands.executeCommand("vscode.diff", left, right, `${from.name} ↔ ${to.name} (${counted})`, { preview: true });
}
