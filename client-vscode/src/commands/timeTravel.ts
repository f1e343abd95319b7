/** Checkpoints, going back, and undoing that. Whatever goes is shown from a dry run first, and can be brought back. */

import * as vscode from "vscode";
import type { RewriteResult } from "timeleap-client";
import type { Session } from "../sessions/session.js";
import { checkpoints, listed, messages, tokens } from "../text/format.js";
import { sayInformation } from "../text/say.js";
import { CheckpointNode, checkpointName } from "../views/checkpointNodes.js";
import { timelineName, TimelineNode } from "../views/timelinesTree.js";
import { pickCheckpoint, pickTimeline } from "./pick.js";
import type { Handlers, Workbench } from "./register.js";
import { Refusal, report } from "./report.js";
import { target, writableSession } from "./targets.js";

export function timeTravelCommands(bench: Workbench): Handlers {
  return {
    createCheckpoint: () => createCheckpoint(writableSession(bench.sessions)),
    revertTo: (node) => revertTo(bench, node),
    undo: () => undo(bench),
    restoreTimeline: (node) => restoreTimeline(bench, node),
    clear: () => clear(bench),
  };
}

async function createCheckpoint(session: Session): Promise<void> {
  const label = await vscode.window.showInputBox({
    title: vscode.l10n.t("Create Checkpoint"),
    prompt: vscode.l10n.t("A label for the checkpoint; it may be empty"),
    placeHolder: vscode.l10n.t("Before the refactoring"),
  });
  if (label !== undefined) {
    await session.request("context/checkpoint", label.trim() === "" ? {} : { label: label.trim() });
  }
}

async function revertTo(bench: Workbench, node: unknown): Promise<void> {
  const session = writableSession(bench.sessions);
  const row = target(CheckpointNode, node, bench.views.checkpoints);
  const checkpoint = row?.span.checkpoint ?? (await pickCheckpoint(session, vscode.l10n.t("Revert to which checkpoint?")));
  if (!checkpoint) {
    return;
  }
  if (row && (row.place.session !== session || row.place.log.timelineId !== undefined)) {
    throw new Refusal(vscode.l10n.t("This checkpoint is not in the present log. Restore its timeline first."));
  }
  const checkpointUid = checkpoint.uid;
  const name = checkpointName(checkpoint);
  const plan = await session.request("context/revertTo", { checkpointUid, dryRun: true });
  const agreed = await confirm(
    vscode.l10n.t("Revert to “{0}”?", name),
    `${vscode.l10n.t("This checkpoint and everything after it goes: {0}.", amount(plan))}\n\n${kept()}`,
    vscode.l10n.t("Revert"),
  );
  if (agreed) {
    const done = await session.request("context/revertTo", { checkpointUid, expectedHead: plan.head });
    offerUndo(bench, session, done, vscode.l10n.t("Reverted to “{0}”: {1} set aside.", name, amount(done)));
  }
}

async function clear(bench: Workbench): Promise<void> {
  const session = writableSession(bench.sessions);
  const plan = await session.request("context/clear", { dryRun: true });
  const agreed = await confirm(
    vscode.l10n.t("Clear “{0}”?", session.name),
    `${vscode.l10n.t("Everything but the system prompt goes: {0}.", amount(plan))}\n\n${kept()}`,
    vscode.l10n.t("Clear"),
  );
  if (agreed) {
    const done = await session.request("context/clear", { expectedHead: plan.head });
    offerUndo(bench, session, done, vscode.l10n.t("Cleared: {0} set aside.", amount(done)));
  }
}

async function undo(bench: Workbench): Promise<void> {
  const session = writableSession(bench.sessions);
  const [newest] = await session.timelines.list();
  if (!newest) {
    throw new Refusal(vscode.l10n.t("There is nothing to undo: no earlier log has been set aside."));
  }
  await restore(bench, session, newest.timelineId, timelineName(newest));
}

async function restoreTimeline(bench: Workbench, node: unknown): Promise<void> {
  const session = writableSession(bench.sessions);
  const row = target(TimelineNode, node);
  if (row && row.session !== session) {
    throw new Refusal(vscode.l10n.t("This timeline is not of the session that is shown."));
  }
  const timeline = row?.timeline ?? (await pickTimeline(session, vscode.l10n.t("Restore which timeline?")));
  if (timeline) {
    await restore(bench, session, timeline.timelineId, timelineName(timeline));
  }
}

async function restore(bench: Workbench, session: Session, timelineId: string, name: string): Promise<void> {
  const plan = await session.request("context/restoreTimeline", { timelineId, dryRun: true });
  const agreed = await confirm(
    vscode.l10n.t("Restore the timeline “{0}”?", name),
    `${vscode.l10n.t("It takes the place of the present conversation, and has {0}.", size(plan))}\n\n${kept()}`,
    vscode.l10n.t("Restore"),
  );
  if (agreed) {
    const done = await session.request("context/restoreTimeline", { timelineId, expectedHead: plan.head });
    offerUndo(bench, session, done, vscode.l10n.t("Restored: {0}.", size(done)));
  }
}

/** One more button of a message. */
interface Offer {
  readonly title: string;
  readonly run: () => Promise<void>;
}

/** Says what was done, with the way back. Nobody waits for the answer. */
export function offerUndo(
  bench: Workbench,
  session: Session,
  done: { readonly head: string; readonly timelineId?: string },
  message: string,
  ...more: readonly Offer[]
): void {
  const { timelineId, head } = done;
  const undoing = timelineId === undefined ? [] : [{ title: vscode.l10n.t("Undo"), run: () => takeBack(bench, session, timelineId, head) }];
  const offers: readonly Offer[] = [...undoing, ...more];
  void sayInformation(message, ...offers.map(({ title }) => title)).then(async (chosen) => {
    try {
      await offers.find(({ title }) => title === chosen)?.run();
    } catch (error) {
      await report(error, bench);
    }
  });
}

/** At once if nothing has happened since; else what came since would go, and is asked about. */
async function takeBack(bench: Workbench, session: Session, timelineId: string, head: string): Promise<void> {
  if (session.state.head !== head) {
    await restore(bench, session, timelineId, vscode.l10n.t("before the change"));
    return;
  }
  const done = await session.request("context/restoreTimeline", { timelineId, expectedHead: head });
  offerUndo(bench, session, done, vscode.l10n.t("Undone: the conversation is as it was, with {0}.", size(done)));
}

/** The editor adds its own Cancel. */
export async function confirm(message: string, detail: string, button: string): Promise<boolean> {
  return (await vscode.window.showWarningMessage(message, { modal: true, detail }, button)) === button;
}

export function amount({ removed }: Pick<RewriteResult, "removed">): string {
  return listed([messages(removed.messages), checkpoints(removed.checkpoints), removed.tokens > 0 ? tokens(removed.tokens) : ""]);
}

function size({ context }: RewriteResult): string {
  return listed([messages(context.messageCount), tokens(context.tokenCount)]);
}

export function kept(): string {
  return vscode.l10n.t("What goes is kept as a timeline and can be restored at any time.");
}
