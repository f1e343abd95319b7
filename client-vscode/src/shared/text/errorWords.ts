/** What is said of an error, with the steps out of it as buttons. */

import * as vscode from "vscode";
import { isConnectionLost, isTimeleapError, isTimeout, messageOf } from "../errors.js";
import { withDetail } from "./detail.js";
import { storageTroubleOf } from "./storageTrouble.js";

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

export function restart(): Step {
  return { title: vscode.l10n.t("Restart Server"), command: "timeleap.restartServer" };
}

export function logs(): Step {
  return { title: vscode.l10n.t("Show Logs"), command: "timeleap.showLogs" };
}

export function install(): Step {
  return { title: vscode.l10n.t("Install"), command: "timeleap.installServer" };
}

export function chooseInterpreter(): Step {
  return { title: vscode.l10n.t("Choose an Interpreter"), command: "workbench.action.openSettings", arguments: ["@ext:timeleap.timeleap"] };
}

export function filesMode(): Step {
  return { title: vscode.l10n.t("When Files Are Saved…"), command: "timeleap.setFilesMode" };
}

export function show(): Step {
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
