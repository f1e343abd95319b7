/** Checkpoints, going back, and undoing that. Whatever goes is shown from a dry run first, and can be brought back. */

import * as vscode from "vscode";
import type { Checkpoint, RestoredFiles, RewriteResult, UndoResult } from "timeleap-client";
import { isTimeleapError } from "../server/errors.js";
import type { Session } from "../sessions/session.js";
import { amount, exact, listed, messages, oneLine, tokens, tokensUsed } from "../../shared/text/format.js";
import { roleName } from "../../shared/text/roles.js";
import { gistOf } from "../../shared/text/message.js";
import { sayInPlace } from "../../shared/text/say.js";
import { stepName } from "../../shared/text/steps.js";
import { checkpointName } from "../../shared/text/happened.js";
import { CheckpointNode } from "../tree/checkpointNodes.js";
import { MessageNode, ToolCallNode } from "../tree/messageNodes.js";
import { timelineName, TimelineNode } from "../tree/timelinesTree.js";
import { continueElsewhere, type RevertPlace } from "./continuing.js";
import { pickCheckpoint, pickTimeline } from "../commands/pick.js";
import type { Handlers, Workbench } from "../commands/register.js";
import { Refusal, report } from "../commands/report.js";
import { andFiles, carryOut, chooseRestoring, CONVERSATION, forecast, restoreFiles, touchesFiles, type Forecast, type Restoring } from "./restoring.js";
import { target, writableSession } from "../commands/targets.js";

export function timeTravelCommands(bench: Workbench): Handlers {
  return {
    createCheckpoint: () => createCheckpoint(writableSession(bench.sessions)),
    revertTo: (node) => revertTo(bench, node),
    revertToMessage: (node) => revertToMessage(bench, node),
    // Going back in a read-only copy, by the names that it has there.
    continueInClaudeCode: (node) => revertToRow(bench, node),
    continueInItsProgram: (node) => revertToRow(bench, node),
    undo: (how) => step(bench, writableSession(bench.sessions), "context/undo", how === AT_ONCE),
    redo: (how) => step(bench, writableSession(bench.sessions), "context/redo", how === AT_ONCE),
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
  const session = sessionToGoBackIn(bench);
  const row = target(CheckpointNode, node, bench.views.checkpoints);
  const checkpoint = row?.span.checkpoint ?? (await pickCheckpoint(session, vscode.l10n.t("Go back to before which checkpoint?")));
  if (!checkpoint) {
    return;
  }
  if (row && (row.place.session !== session || row.place.log.timelineId !== undefined)) {
    throw new Refusal(vscode.l10n.t("This checkpoint is not in the present log. Restore its timeline first."));
  }
  await revertToCheckpoint(bench, session, checkpoint);
}

/** A read-only copy of another program's conversation goes back in that program. */
function sessionToGoBackIn({ sessions }: Workbench): Session {
  return sessions.shown?.mirrorOf === undefined ? writableSession(sessions) : sessions.shown;
}

export async function revertToCheckpoint(bench: Workbench, session: Session, checkpoint: Checkpoint): Promise<void> {
  const name = checkpointName(checkpoint);
  await revert(bench, session, { checkpointUid: checkpoint.uid }, {
    name,
    question: vscode.l10n.t("Go back to before “{0}”?", name),
    goes: (gone) => vscode.l10n.t("This checkpoint and everything after it goes: {0}.", gone),
    done: (gone) => vscode.l10n.t("Went back to before “{0}”: {1} set aside.", name, gone),
  });
}

interface RevertWords {
  /** Name of the place. */
  readonly name: string;
  readonly question: string;
  readonly goes: (gone: string) => string;
  readonly done: (gone: string) => string;
}

/** Whether the conversation went back. */
async function revert(bench: Workbench, session: Session, to: RevertPlace, words: RevertWords): Promise<boolean> {
  if (session.mirrorOf !== undefined) {
    return continueElsewhere(session, session.mirrorOf, to, words.name);
  }
  const forecasted = await forecast(session, "context/revertTo", to);
  const { plan } = forecasted;
  const restoring = await chooseRestoring(
    { message: words.question, detail: `${words.goes(amount(plan))}\n\n${kept()}`, button: vscode.l10n.t("Go Back"), filesOnly: true },
    forecasted,
  );
  if (!restoring) {
    return false;
  }
  const done = await carryOut(session, "context/revertTo", { ...to, expectedHead: plan.head }, restoring);
  if (restoring.restore === "files") {
    offerFilesBack(bench, session, done.files);
  } else {
    offerUndo(bench, session, done, words.done(amount(done)) + andFiles(done));
  }
  return restoring.restore !== "files";
}

function revertToRow(bench: Workbench, node: unknown): Promise<void> {
  return node instanceof MessageNode || node instanceof ToolCallNode ? revertToMessage(bench, node) : revertTo(bench, node);
}

async function revertToMessage(bench: Workbench, node: unknown): Promise<void> {
  const session = sessionToGoBackIn(bench);
  const row = target(MessageNode, node, bench.views.checkpoints) ?? target(ToolCallNode, node, bench.views.checkpoints);
  if (!row) {
    throw new Refusal(vscode.l10n.t("Select a message first."));
  }
  if (row.place.session !== session || row.place.log.timelineId !== undefined) {
    throw new Refusal(vscode.l10n.t("This message is not in the present log. Restore its timeline first."));
  }
  const { index: messageIndex, message } = row instanceof MessageNode ? row.entry : row.from;
  const name = oneLine(row instanceof MessageNode ? gistOf(message) : row.call.function.name, 50) || roleName(message.role);
  await revertToIndex(bench, session, messageIndex, name);
}

/** Goes back to before a message, after asking. Whether the conversation went back. */
export async function revertToIndex(bench: Workbench, session: Session, messageIndex: number, name: string): Promise<boolean> {
  return revert(bench, session, { messageIndex }, {
    name,
    question: vscode.l10n.t("Go back to before “{0}”?", name),
    goes: (gone) => vscode.l10n.t("This message and everything after it goes: {0}.", gone),
    done: (gone) => vscode.l10n.t("Went back to before “{0}”: {1} set aside.", name, gone),
  });
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

const DIRECTIONS = {
  "context/undo": { kind: "nothingToUndo", count: "canUndo" },
  "context/redo": { kind: "nothingToRedo", count: "canRedo" },
} as const;

type Direction = keyof typeof DIRECTIONS;

/** What the keys for going to and fro pass: they ask only where something would go that was written since. */
const AT_ONCE = "atOnce";

/** One step back or forth among the changes of the whole conversation. */
async function step(bench: Workbench, session: Session, direction: Direction, atOnce = false): Promise<void> {
  if (!bench.sidecar.serves(direction)) {
    await undoWithoutSteps(bench, session, direction);
    return;
  }
  const forecasted = await planOf(session, direction);
  const { plan } = forecasted;
  if (atOnce && session.asRewritten && !touchesFiles(forecasted)) {
    sayStep(bench, session, direction, await carryOut(session, direction, { expectedHead: plan.head }, CONVERSATION));
    return;
  }
  const [{ kind } = { kind: "restore" as const }] = plan.steps;
  const [undoing, name] = [direction === "context/undo", stepName(kind)];
  const left = plan[DIRECTIONS[direction].count];
  const detail = [
    vscode.l10n.t("Now: {0}.", size(session.state)),
    vscode.l10n.t("Then: {0}.", size(plan)),
    left === 0 ? "" : undoing ? vscode.l10n.t("Steps that can be undone after this one: {0}.", exact(left)) : vscode.l10n.t("Steps that can be done again after this one: {0}.", exact(left)),
    `\n${vscode.l10n.t("The present conversation is kept as a timeline and can be restored at any time.")}`,
  ].filter((line) => line !== "");
  const question = undoing ? vscode.l10n.t("Undo the last change ({0})?", name) : vscode.l10n.t("Do the undone change again ({0})?", name);
  const button = undoing ? vscode.l10n.t("Undo") : vscode.l10n.t("Redo");
  const restoring = await chooseRestoring({ message: question, detail: detail.join("\n"), button }, forecasted);
  if (restoring) {
    sayStep(bench, session, direction, await carryOut(session, direction, { expectedHead: plan.head }, restoring));
  }
}

async function planOf(session: Session, direction: Direction): Promise<Forecast<UndoResult>> {
  try {
    return await forecast(session, direction, {});
  } catch (error) {
    throw isTimeleapError(error, DIRECTIONS[direction].kind) ? nothingTo(direction) : error;
  }
}

function nothingTo(direction: Direction): Refusal {
  return new Refusal(
    direction === "context/undo"
      ? vscode.l10n.t("There is nothing to undo: no earlier log has been set aside.")
      : vscode.l10n.t("There is nothing to redo: nothing was undone, or something was written since."),
  );
}

/** On a server that does not know the methods: the newest timeline takes the present's place. */
async function undoWithoutSteps(bench: Workbench, session: Session, direction: Direction): Promise<void> {
  const [newest] = await session.timelines.list();
  if (!newest || direction === "context/redo") {
    throw nothingTo(direction);
  }
  await restore(bench, session, newest.timelineId, timelineName(newest));
}

/** Says what was done, with the way back. */
function sayStep(bench: Workbench, session: Session, direction: Direction, done: UndoResult): void {
  const undone = direction === "context/undo";
  const message = undone ? vscode.l10n.t("Undone: the conversation is as it was, with {0}.", size(done)) : vscode.l10n.t("Done again: {0}.", size(done));
  const back: Direction = undone ? "context/redo" : "context/undo";
  offer(bench, message + andFiles(done), {
    title: undone ? vscode.l10n.t("Redo") : vscode.l10n.t("Undo"),
    run: () => bench.sessions.withOpen(session.id, (open) => stepAtOnce(bench, open, back, done)),
  });
}

/** Without asking if nothing has happened since; files that went along go back along. */
async function stepAtOnce(bench: Workbench, session: Session, direction: Direction, { head, files }: Pick<UndoResult, "head" | "files">): Promise<void> {
  if (session.state.head !== head) {
    await step(bench, session, direction);
    return;
  }
  sayStep(bench, session, direction, await carryOut(session, direction, { expectedHead: head }, files ? { restore: "both" } : CONVERSATION));
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

export async function restore(bench: Workbench, session: Session, timelineId: string, name: string): Promise<void> {
  const forecasted = await forecast(session, "context/restoreTimeline", { timelineId });
  const { plan } = forecasted;
  const restoring = await chooseRestoring(
    {
      message: vscode.l10n.t("Restore the timeline “{0}”?", name),
      detail: `${vscode.l10n.t("It takes the place of the present conversation, and has {0}.", size(plan))}\n\n${kept()}`,
      button: vscode.l10n.t("Restore"),
    },
    forecasted,
  );
  if (restoring) {
    const done = await carryOut(session, "context/restoreTimeline", { timelineId, expectedHead: plan.head }, restoring);
    offerUndo(bench, session, done, vscode.l10n.t("Restored: {0}.", size(done)) + andFiles(done));
  }
}

/** Says which files were put back, with the way back. */
export function offerFilesBack(bench: Workbench, session: Session, restored: RestoredFiles | undefined): void {
  const message = vscode.l10n.t("The conversation is as it was.") + andFiles({ ...(restored ? { files: restored } : {}) });
  const snapshot = restored?.before;
  const run = async (before: string): Promise<void> => offerFilesBack(bench, session, (await restoreFiles(session, before)).files);
  offer(bench, message, ...(snapshot === undefined ? [] : [{ title: vscode.l10n.t("Undo"), run: () => run(snapshot) }]));
}

/** One more button of a message. */
interface Offer {
  readonly title: string;
  readonly run: () => Promise<void>;
}

/** Says what was done, with the way back. */
export function offerUndo(
  bench: Workbench,
  session: Session,
  done: Pick<RewriteResult, "head" | "timelineId" | "files">,
  message: string,
  ...more: readonly Offer[]
): void {
  const { timelineId } = done;
  // By then it may no longer be open: chat goes back in sessions that are open for that long only.
  const run = (timeline: string): Promise<void> => bench.sessions.withOpen(session.id, (open) => takeBack(bench, open, timeline, done));
  const undoing = timelineId === undefined ? [] : [{ title: vscode.l10n.t("Undo"), run: () => run(timelineId) }];
  offer(bench, message, ...undoing, ...more);
}

/** Nobody waits for the answer. */
function offer(bench: Workbench, message: string, ...offers: readonly Offer[]): void {
  void sayInPlace(message, ...offers.map(({ title }) => title)).then(async (chosen) => {
    try {
      await offers.find(({ title }) => title === chosen)?.run();
    } catch (error) {
      await report(error, bench);
    }
  });
}

/** At once if nothing has happened since; else what came since would go, and is asked about. */
async function takeBack(bench: Workbench, session: Session, timelineId: string, { head, files }: Pick<RewriteResult, "head" | "files">): Promise<void> {
  const restoring: Restoring = files ? { restore: "both" } : CONVERSATION;
  if (session.state.head !== head) {
    await restore(bench, session, timelineId, vscode.l10n.t("before the change"));
    return;
  }
  if (bench.sidecar.serves("context/undo")) {
    sayStep(bench, session, "context/undo", await carryOut(session, "context/undo", { expectedHead: head }, restoring));
    return;
  }
  const done = await carryOut(session, "context/restoreTimeline", { timelineId, expectedHead: head }, restoring);
  offerUndo(bench, session, done, vscode.l10n.t("Undone: the conversation is as it was, with {0}.", size(done)) + andFiles(done));
}

/** The editor adds its own Cancel. */
export async function confirm(message: string, detail: string, button: string): Promise<boolean> {
  return (await vscode.window.showWarningMessage(message, { modal: true, detail }, button)) === button;
}

function size({ context }: Pick<RewriteResult, "context">): string {
  return listed([messages(context.messageCount), tokens(tokensUsed(context))]);
}

export function kept(): string {
  return vscode.l10n.t("What goes is kept as a timeline and can be restored at any time.");
}
