/** Comparing two states, of one session or of two: both are selected, or the other one is chosen from a list. The page shows what differs. */

import * as vscode from "vscode";
import type { Handlers, Workbench } from "../../core/commands/register.js";
import { Refusal } from "../../core/commands/report.js";
import { shownSession } from "../../core/commands/targets.js";
import { CheckpointNode } from "../../core/tree/checkpointNodes.js";
import { ChosenSession } from "../../kit/chosen.js";
import { Session } from "../../core/sessions/session.js";
import { TimelineNode } from "../../kit/branches.js";
import { FileNode } from "../../kit/fileNodes.js";
import { oneLine } from "../../shared/text/format.js";
import { pickPoint } from "./points.js";
import type { Point } from "./wire.js";
import { verbOf } from "../../shared/text/titles.js";
import { headed } from "../../shared/text/detail.js";

/** Characters of a name. */
const NAME = 60;

type State = Point & { readonly session: string };

export function compareCommands(bench: Workbench): Handlers {
  return {
    compare: async (node) => {
      const { selection } = bench.views.checkpoints;
      const [one, other] = selection;
      if (node instanceof FileNode) {
        await vscode.commands.executeCommand("timeleap.compareFileWithDisk", node);
      } else if (one && other && selection.length === 2 && (node === undefined || node === one || node === other)) {
        await show(...inOrder(stateOf(one), stateOf(other)));
      } else {
        await compareWithChosen(bench, stateOf(node ?? one ?? shownSession(bench.sessions)));
      }
    },
  };
}

async function compareWithChosen(bench: Workbench, from: State): Promise<void> {
  await bench.sessions.withOpen(from.session, async (session) => {
    const to = await pickPoint(bench, session, headed(verbOf("compare"), from.name ?? session.name));
    if (to) {
      await show(...inOrder(from, { session: session.id, ...to }));
    }
  });
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
  if (node instanceof Session) {
    return { session: node.id };
  }
  throw new Refusal(vscode.l10n.t("Select a checkpoint or a branch first."));
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
