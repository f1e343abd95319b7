/** Errors in words, with the next step as a button. */

import * as vscode from "vscode";
import { isConnectionLost, isTimeleapError, isTimeout, messageOf } from "../../shared/errors.js";
import { ServerFailure } from "../server/failure.js";
import { storageTroubleOf } from "../../shared/text/storageTrouble.js";
import { withDetail } from "../../shared/text/detail.js";
import { sayError, sayWarning } from "../../shared/text/say.js";
import type { Workbench } from "./register.js";

/** A button, and what it does. */
export interface Step {
  readonly title: string;
  readonly command: string;
  readonly arguments?: readonly unknown[];
}

/** What a command throws when the user must know something and nothing is broken; with what can be done about it. */
export class Refusal extends Error {
  override readonly name = "Refusal";
  readonly steps: readonly Step[];

  constructor(message: string, ...steps: readonly Step[]) {
    super(message);
    this.steps = steps;
  }
}

export interface Words {
  readonly message: string;
  readonly steps: readonly Step[];
}

/** Shows an error. Resolves when the user has chosen a step or looked away. */
export async function report(error: unknown, bench: Pick<Workbench, "log" | "views" | "sessions">): Promise<void> {
  if (isCancellation(error)) {
    return;
  }
  const { message, steps } = wordsFor(error);
  bench.log.error(messageOf(error));
  if (isStale(error)) {
    await bench.views.refresh().catch(() => undefined);
  }
  const titles = steps.map((step) => step.title);
  const chosen = error instanceof Refusal ? await sayWarning(message, ...titles) : await sayError(message, ...titles);
  const step = steps.find(({ title }) => title === chosen);
  if (step) {
    await vscode.commands.executeCommand(step.command, ...(step.arguments ?? []));
  }
}

/** The request was made on what is no longer so. */
export function isStale(error: unknown): boolean {
  return isTimeleapError(error, "contentModified") || isTimeleapError(error, "checkpointNotFound") || isTimeleapError(error, "timelineNotFound");
}

export function wordsFor(error: unknown): Words {
  if (error instanceof Refusal) {
    return error;
  }
  if (error instanceof ServerFailure) {
    return { message: error.message, steps: stepsAfter(error.kind) };
  }
  if (isTimeout(error)) {
    return { message: vscode.l10n.t("The server did not answer in time. Whether the change was made is not known; the view shows what is true."), steps: [restart(), logs()] };
  }
  if (isConnectionLost(error)) {
    return { message: vscode.l10n.t("The server ended before it answered. The view shows what is true."), steps: [restart(), logs()] };
  }
  const trouble = storageTroubleOf(error);
  if (trouble?.outcomeUnknown) {
    const text = vscode.l10n.t("{0} Whether the change was made is not known; the view shows what is true.", trouble.what);
    return { message: text, steps: [logs()] };
  }
  if (trouble) {
    return { message: vscode.l10n.t("{0} Nothing was changed. {1}", trouble.what, trouble.next), steps: [logs()] };
  }
  if (isTimeleapError(error, "readOnly") && error.data["reason"] === "mirrored") {
    return { message: vscode.l10n.t("This is a read-only copy of another program's conversation. Fork it to go on here."), steps: [fork()] };
  }
  return isTimeleapError(error) ? wordsForKind(error.kind, error.message) : { message: messageOf(error), steps: [logs()] };
}

/** As the welcome views have them. */
function stepsAfter(kind: ServerFailure["kind"]): Step[] {
  switch (kind) {
    case "noServer":
    case "protocol":
      return [install(), logs()];
    case "noPython":
    case "wrongInterpreter":
    case "oldPython":
      return [chooseInterpreter(), logs()];
    default:
      return [restart(), logs()];
  }
}

function wordsForKind(kind: string, message: string): Words {
  switch (kind) {
    case "contentModified":
      return { message: vscode.l10n.t("The session has changed meanwhile, so nothing was done. The view is up to date now; look again."), steps: [show()] };
    case "checkpointNotFound":
      // The user who took it back has set it aside.
      return { message: vscode.l10n.t("That checkpoint no longer exists, so nothing was done. The view is up to date now."), steps: [show()] };
    case "timelineNotFound":
      return { message: vscode.l10n.t("That timeline no longer exists, so nothing was done. The view is up to date now."), steps: [show()] };
    case "readOnly":
      return { message: withDetail(vscode.l10n.t("This session can only be looked at here."), message), steps: [reload()] };
    case "sessionLocked":
      return { message: withDetail(vscode.l10n.t("Another program is writing this session."), message), steps: [reload()] };
    case "externallyModified":
      return { message: vscode.l10n.t("A program that does not work through Timeleap has changed this session. Take over what it wrote?"), steps: [reload()] };
    case "methodNotFound":
      return { message: withDetail(vscode.l10n.t("This server cannot do that yet."), message), steps: [] };
    case "filesUnavailable":
    case "filesTooLarge":
      return { message: withDetail(vscode.l10n.t("Files were not looked at."), message, vscode.l10n.t("Everything else works.")), steps: [filesMode()] };
    case "filesBusy":
      return { message: vscode.l10n.t("Another program is saving or putting back files of this folder, so nothing was done. Try again in a moment."), steps: [] };
    case "filesIncomplete":
      return { message: withDetail(vscode.l10n.t("Putting files back was interrupted."), message), steps: [logs()] };
    case "snapshotNotFound":
      return { message: withDetail(vscode.l10n.t("The files as they were then are no longer kept, so nothing was done."), message), steps: [] };
    case "filesConflict":
      return { message: withDetail(vscode.l10n.t("Files were changed after the last message, by you or another program, so nothing was done."), message), steps: [] };
    case "corrupted":
    case "storageFailure":
      return { message: withDetail(vscode.l10n.t("The session's files cannot be used."), message), steps: [logs()] };
    default:
      return { message, steps: [logs()] };
  }
}

function isCancellation(error: unknown): boolean {
  return error instanceof vscode.CancellationError || isTimeleapError(error, "cancelled");
}

function restart(): Step {
  return { title: vscode.l10n.t("Restart Server"), command: "timeleap.restartServer" };
}

function logs(): Step {
  return { title: vscode.l10n.t("Show Logs"), command: "timeleap.showLogs" };
}

function install(): Step {
  return { title: vscode.l10n.t("Install"), command: "timeleap.installServer" };
}

function chooseInterpreter(): Step {
  return { title: vscode.l10n.t("Choose an Interpreter"), command: "workbench.action.openSettings", arguments: ["@ext:timeleap.timeleap"] };
}

function filesMode(): Step {
  return { title: vscode.l10n.t("When Files Are Saved…"), command: "timeleap.setFilesMode" };
}

function show(): Step {
  return { title: vscode.l10n.t("Show Checkpoints"), command: "timeleap.checkpoints.focus" };
}

export function fork(): Step {
  return { title: vscode.l10n.t("Fork…"), command: "timeleap.fork" };
}

export function reload(): Step {
  return { title: vscode.l10n.t("Reload Session"), command: "timeleap.reloadSession" };
}

export function manageTrust(): Step {
  return { title: vscode.l10n.t("Manage Workspace Trust"), command: "workbench.trust.manage" };
}
