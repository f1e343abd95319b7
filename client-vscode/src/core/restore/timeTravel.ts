/** Restore, and its Undo and Redo: done at once, since they can be undone with depth. A question comes first only where somebody's changes of files would go. */

import * as vscode from "vscode";
import type { Checkpoint, RewriteResult, UndoResult } from "timeleap-client";
import { isTimeleapError } from "../../shared/errors.js";
import type { Session } from "../sessions/session.js";
import { amount, listed, messages, relativeTime, tokens, tokensUsed } from "../../shared/text/format.js";
import { sayInPlace } from "../../shared/text/say.js";
import { stepInWords } from "../../shared/text/steps.js";
import { titleOf } from "../../shared/text/titles.js";
import { readSettings } from "../../shared/settings.js";
import { checkpointName } from "../../shared/text/happened.js";
import { CheckpointNode } from "../tree/checkpointNodes.js";
import { TreeNode } from "../tree/node.js";
import type { Question, RevertPlace } from "./changes.js";
import type { Handlers, Workbench } from "../commands/register.js";
import { Refusal, report, thereIsNone } from "../commands/report.js";
import { writableSession } from "../commands/targets.js";
import { headed } from "../../shared/text/detail.js";

export function timeTravelCommands(bench: Workbench): Handlers {
  return {
    restore: (node) => restoreTo(bench, node, readSettings().restoreAsks),
    restoreWithOptions: (node) => restoreTo(bench, node, true),
    undo: () => step(bench, writableSession(bench.sessions), "context/undo"),
    redo: () => step(bench, writableSession(bench.sessions), "context/redo"),
  };
}

/** Restore to a row; undefined: to the selected one, else to one that is chosen from a list with that title. */
export async function restoreTo(bench: Workbench, node: unknown, asks: boolean, title = titleOf("restore")): Promise<void> {
  const given = node ?? bench.views.checkpoints.selection[0];
  if (given instanceof TreeNode && given.restore) {
    await given.restore(bench, asks);
    return;
  }
  const session = sessionToGoBackIn(bench);
  const row = given instanceof CheckpointNode ? given : undefined;
  if (row && (row.place.session !== session || row.place.log.timelineId !== undefined)) {
    throw notPresent();
  }
  const checkpoint = row?.span.checkpoint ?? (await pickCheckpoint(session, title));
  if (checkpoint) {
    await revert(bench, session, { checkpointUid: checkpoint.uid }, checkpointName(checkpoint), asks);
  }
}

/** One of the loaded checkpoints. */
async function pickCheckpoint(session: Session, title: string): Promise<Checkpoint | undefined> {
  const spans = await session.log.spans();
  if (spans.length === 0) {
    throw thereIsNone(title);
  }
  const items = spans.map(({ checkpoint }) => ({
    label: checkpointName(checkpoint),
    description: [...(checkpoint.createdAt === undefined ? [] : [relativeTime(checkpoint.createdAt)]), messages(checkpoint.messageCount)].join(" · "),
    checkpoint,
  }));
  return (await vscode.window.showQuickPick(items, { title, matchOnDescription: true }))?.checkpoint;
}

export function notPresent(): Refusal {
  return new Refusal(vscode.l10n.t("This is not in the present conversation. Restore its branch first."));
}

/** A read-only copy of another program's conversation goes back in that program. */
export function sessionToGoBackIn({ sessions }: Workbench): Session {
  return sessions.shown?.mirrorOf === undefined ? writableSession(sessions) : sessions.shown;
}

/**
 * Takes the conversation back to before a checkpoint or a message, and the files with it.
 *
 * @param name Name of that place.
 * @param asks Whether a person is asked at any rate.
 * @returns Whether the conversation went back.
 */
export async function revert(bench: Workbench, session: Session, to: RevertPlace, name: string, asks = readSettings().restoreAsks): Promise<boolean> {
  if (session.mirrorOf !== undefined) {
    return bench.changes.elsewhere(session, session.mirrorOf, to, name);
  }
  const ask = (plan: RewriteResult): Question => ({
    message: vscode.l10n.t("Restore to before “{0}”?", name),
    detail: `${vscode.l10n.t("This and everything after it goes: {0}.", amount(plan))}\n\n${kept()}`,
    button: vscode.l10n.t("Restore"),
    filesOnly: true,
  });
  const changed = await bench.changes.make(session, "context/revertTo", to, ask, asks);
  if (changed) {
    const { done, also } = changed;
    offerUndo(bench, session, done, vscode.l10n.t("Restored to before “{0}”: {1} set aside.", name, amount(done)) + also);
  }
  return changed !== undefined;
}

/** One step back or forth among the changes of the whole conversation, files included. */
async function step(bench: Workbench, session: Session, direction: "context/undo" | "context/redo"): Promise<void> {
  const undoing = direction === "context/undo";
  const [name, back] = undoing ? (["undo", "redo"] as const) : (["redo", "undo"] as const);
  const ask = (plan: UndoResult): Question => ({ message: stepInWords(undoing, size(plan)), detail: kept(), button: titleOf(name) });
  const changed = await bench.changes.make(session, direction, {}, ask, readSettings().restoreAsks).catch((error: unknown) => {
    throw isTimeleapError(error, undoing ? "nothingToUndo" : "nothingToRedo") ? thereIsNone(titleOf(name)) : error;
  });
  if (changed) {
    const { done, also } = changed;
    const message = undoing ? vscode.l10n.t("Undone: the conversation is as it was, with {0}.", size(done)) : vscode.l10n.t("Done again: {0}.", size(done));
    offer(bench, message + also, { title: titleOf(back), run: () => bench.sessions.withOpen(session.id, (open) => step(bench, open, `context/${back}`)) });
  }
}

export async function restore(bench: Workbench, session: Session, timelineId: string, name: string): Promise<void> {
  const ask = (plan: RewriteResult): Question => ({
    message: headed(titleOf("restoreTimeline"), name),
    detail: `${size(plan)}\n\n${kept()}`,
    button: vscode.l10n.t("Restore"),
  });
  const changed = await bench.changes.make(session, "context/restoreTimeline", { timelineId }, ask, readSettings().restoreAsks);
  if (changed) {
    offerUndo(bench, session, changed.done, vscode.l10n.t("Restored: {0}.", size(changed.done)) + changed.also);
  }
}

/** One more button of a message. */
export interface Offer {
  readonly title: string;
  readonly run: () => Promise<void>;
}

/** Says what was done, with the way back. */
export function offerUndo(
  bench: Workbench,
  session: Session,
  done: Pick<RewriteResult, "head" | "timelineId">,
  message: string,
  ...more: readonly Offer[]
): void {
  const { timelineId } = done;
  // By then it may no longer be open: chat goes back in sessions that are open for that long only.
  const run = (timeline: string): Promise<void> => bench.sessions.withOpen(session.id, (open) => takeBack(bench, open, timeline, done));
  const undoing = timelineId === undefined ? [] : [{ title: titleOf("undo"), run: () => run(timelineId) }];
  offer(bench, message, ...undoing, ...more);
}

/** Nobody waits for the answer. */
export function offer(bench: Workbench, message: string, ...offers: readonly Offer[]): void {
  void sayInPlace(message, ...offers.map(({ title }) => title)).then(async (chosen) => {
    try {
      await offers.find(({ title }) => title === chosen)?.run();
    } catch (error) {
      await report(error, bench);
    }
  });
}

/** A step back if nothing has happened since; else the log as it was before the change is restored, whatever has been changed since. */
async function takeBack(bench: Workbench, session: Session, timelineId: string, { head }: Pick<RewriteResult, "head">): Promise<void> {
  if (session.state.head === head) {
    await step(bench, session, "context/undo");
  } else {
    await restore(bench, session, timelineId, timelineId);
  }
}

function size({ context }: Pick<RewriteResult, "context">): string {
  return listed([messages(context.messageCount), tokens(tokensUsed(context))]);
}

export function kept(): string {
  return vscode.l10n.t("What goes is kept as a branch and can be restored at any time.");
}
