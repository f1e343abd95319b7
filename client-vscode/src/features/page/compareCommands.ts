/** Comparing two states, of one session or of two: one is remembered, or both are selected. The page shows what differs. */

import * as vscode from "vscode";
import { pickCheckpoint } from "../../core/commands/pick.js";
import type { Handlers, Workbench } from "../../core/commands/register.js";
import { Refusal } from "../../core/commands/report.js";
import { shownSession } from "../../core/commands/targets.js";
import { CheckpointNode } from "../../core/tree/checkpointNodes.js";
import { ChosenSession } from "../../kit/chosen.js";
import { TimelineNode } from "../../core/tree/branches.js";
import { oneLine } from "../../shared/text/format.js";
import { checkpointName } from "../../shared/text/happened.js";
import type { Point } from "./wire.js";

/** Characters of a name. */
const NAME = 60;

type State = Point & { readonly session: string };

export function compareCommands(bench: Workbench): Handlers {
  let remembered: State | undefined;
  const chosen = (node: unknown): State => stateOf(node ?? bench.views.checkpoints.selection[0]);
  return {
    compare: async (node) => {
      const from = node === undefined && bench.views.checkpoints.selection.length === 0 ? await pickState(bench) : chosen(node);
      await show(from, { session: from.session });
    },
    // What refuses has to refuse by the promise.
    selectForCompare: (node) =>
      Promise.resolve().then(() => {
        remembered = chosen(node);
        bench.views.selectedForCompare();
      }),
    compareWithSelected: async (node) => {
      if (!remembered) {
        throw new Refusal(vscode.l10n.t("Select something to compare first."));
      }
      await show(...inOrder(remembered, chosen(node)));
    },
    compareSelected: async () => {
      const [one, other] = bench.views.checkpoints.selection.filter((row) => row instanceof CheckpointNode);
      if (!one || !other) {
        throw new Refusal(vscode.l10n.t("Select two checkpoints first."));
      }
      await show(...inOrder(stateOf(one), stateOf(other)));
    },
  };
}

function stateOf(node: unknown): State {
  if (node instanceof TimelineNode) {
    return { session: node.session.id, timelineId: node.timeline.timelineId, name: oneLine(node.name, NAME) };
  }
  if (node instanceof CheckpointNode) {
    const { place: { session, log: { timelineId } }, span: { checkpoint: { messageCount: end, tokenCount: tokens } }, name } = node;
    return { session: session.id, end, name, ...(tokens > 0 ? { tokens } : {}), ...(timelineId === undefined ? {} : { timelineId }) };
  }
  if (node instanceof ChosenSession) {
    return { session: node.info.sessionId };
  }
  throw new Refusal(vscode.l10n.t("Select a checkpoint or a timeline first."));
}

async function pickState({ sessions }: Workbench): Promise<State> {
  const session = shownSession(sessions);
  const picked = await pickCheckpoint(session, vscode.l10n.t("Compare which checkpoint with the present?"));
  if (!picked) {
    throw new vscode.CancellationError();
  }
  return { session: session.id, end: picked.messageCount, name: checkpointName(picked) };
}

/** The earlier of two states of one log is the left side, wherever one began. */
function inOrder(one: State, other: State): [State, State] {
  const turned = one.session === other.session && one.timelineId === other.timelineId && (one.end ?? Infinity) > (other.end ?? Infinity);
  return turned ? [other, one] : [one, other];
}

/** Over the conversation of the first. */
async function show(from: State, to: State): Promise<void> {
  await vscode.commands.executeCommand("timeleap.openConversation", { sessionId: from.session, compare: { from, to } });
}
