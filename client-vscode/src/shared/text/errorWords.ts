/** What is said of an error, with the steps out of it as buttons. */

import * as vscode from "vscode";
import { isConnectionLost, isTimeleapError, isTimeout, messageOf } from "../errors.js";
import { sentences, translated, withDetail } from "./detail.js";
import { storageTroubleOf } from "./storageTrouble.js";
import { titleOf, verbOf } from "./titles.js";

/** A button, and what it does. */
export interface Step {
  readonly title: string;
  readonly command: string;
  readonly arguments?: readonly unknown[];
}

export interface Words {
  readonly message: string;
  readonly steps: readonly Step[];
}

export function wordsOf(error: unknown): Words {
  if (isTimeout(error) || isConnectionLost(error)) {
    return { message: sentences(vscode.l10n.t("The server did not answer."), outcomeUnknown()), steps: [restart(), logs()] };
  }
  const trouble = storageTroubleOf(error);
  if (trouble?.outcomeUnknown) {
    return { message: sentences(trouble.what, outcomeUnknown()), steps: [logs()] };
  }
  if (trouble) {
    return { message: sentences(trouble.what, vscode.l10n.t("Nothing was changed."), trouble.next), steps: [logs()] };
  }
  if (isTimeleapError(error, "readOnly") && error.data["reason"] === "mirrored") {
    return { message: vscode.l10n.t("This session can only be looked at here."), steps: [fork()] };
  }
  return isTimeleapError(error) ? wordsForKind(error.kind, error.message) : { message: messageOf(error), steps: [logs()] };
}

function outcomeUnknown(): string {
  return vscode.l10n.t("Whether the change was made is not known; the view shows what is true.");
}

/** @param kind Why there is no server */
export function stepsAfter(kind: string): Step[] {
  switch (kind) {
    case "noServer":
    case "protocol":
      return [install(), openSettings(), logs()];
    case "noPython":
    case "oldPython":
      return [openSettings(), getPython(), logs()];
    case "wrongInterpreter":
      return [openSettings(), logs()];
    case "startFailed":
      return [restart(), openSettings(), logs()];
    default:
      return [restart(), logs()];
  }
}

function wordsForKind(kind: string, message: string): Words {
  switch (kind) {
    case "contentModified":
    case "checkpointNotFound": // somebody who went back has set it aside
    case "timelineNotFound":
      return { message: vscode.l10n.t("This has changed meanwhile, so nothing was done. The view is up to date now."), steps: [show()] };
    case "readOnly":
      return { message: vscode.l10n.t("This session can only be looked at here."), steps: [reload()] };
    case "sessionNotFound":
      return { message: vscode.l10n.t("This session no longer exists. If it was deleted, it is in the trash."), steps: [openAnother()] };
    case "sessionLocked":
      return { message: withDetail(vscode.l10n.t("Another program is writing this session."), message), steps: [reload()] };
    case "externallyModified":
      return { message: vscode.l10n.t("Another program has changed or moved this session's files."), steps: [reload()] };
    case "filesUnavailable":
    case "filesTooLarge":
    case "filesBusy":
    case "snapshotNotFound":
      return { message: withDetail(vscode.l10n.t("The files cannot be used."), message), steps: [filesMode()] };
    case "filesIncomplete":
      return { message: withDetail(vscode.l10n.t("Putting files back was interrupted."), message), steps: [logs()] };
    case "corrupted":
    case "storageFailure":
      return { message: withDetail(vscode.l10n.t("This session's files are damaged and cannot be used."), message), steps: [logs()] };
    default:
      return { message: translated(refusal(kind), message), steps: [logs()] };
  }
}

/** The server's sentence in the editor's language, as far as its kind says it. */
function refusal(kind: string): string {
  switch (kind) {
    case "sessionExists":
      return vscode.l10n.t("There is a session with this ID already.");
    case "tooLarge":
      return vscode.l10n.t("This is more than Timeleap takes.");
    case "overloaded":
      return vscode.l10n.t("The server has too much to do; try again.");
    case "dmailPending":
      return vscode.l10n.t("Another note waits to be delivered.");
    case "compactionFailed":
      return vscode.l10n.t("Nothing was compacted.");
    case "notSupportedByStore":
      return vscode.l10n.t("A database cannot do this.");
    default:
      return vscode.l10n.t("The server refused.");
  }
}

function restart(): Step {
  return { title: titleOf("restartServer"), command: "timeleap.restartServer" };
}

export function logs(): Step {
  return { title: titleOf("showLogs"), command: "timeleap.showLogs" };
}

export function openAnother(): Step {
  return { title: titleOf("openSession"), command: "timeleap.openSession" };
}

function install(): Step {
  return { title: vscode.l10n.t("Install the Timeleap Server"), command: "timeleap.installServer" };
}

export function openSettings(): Step {
  return { title: vscode.l10n.t("Open Settings"), command: "workbench.action.openSettings", arguments: ["@ext:timeleap.timeleap"] };
}

function getPython(): Step {
  return { title: vscode.l10n.t("Get Python"), command: "vscode.open", arguments: ["https://www.python.org/downloads/"] };
}

export function filesMode(): Step {
  return { title: titleOf("setFilesMode"), command: "timeleap.setFilesMode" };
}

export function show(): Step {
  return { title: vscode.l10n.t("Show Checkpoints"), command: "timeleap.checkpoints.focus" };
}

export function fork(): Step {
  return { title: vscode.l10n.t("Fork…"), command: "timeleap.fork" };
}

export function reload(): Step {
  return { title: verbOf("refresh"), command: "timeleap.reloadSession" };
}

export function manageTrust(): Step {
  return { title: vscode.l10n.t("Manage Workspace Trust"), command: "workbench.trust.manage" };
}
