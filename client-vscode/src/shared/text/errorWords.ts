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
      return { message: withDetail(vscode.l10n.t("This session can only be looked at here."), message), steps: [reload()] };
    case "sessionLocked":
      return { message: withDetail(vscode.l10n.t("Another program is writing this session."), message), steps: [reload()] };
    case "externallyModified":
      return { message: vscode.l10n.t("A program that does not work through Timeleap has changed this session. Take over what it wrote?"), steps: [reload()] };
    case "filesUnavailable":
    case "filesTooLarge":
      return { message: withDetail(vscode.l10n.t("Files were not looked at."), message, vscode.l10n.t("Everything else works.")), steps: [filesMode()] };
    case "filesIncomplete":
      return { message: withDetail(vscode.l10n.t("Putting files back was interrupted."), message), steps: [logs()] };
    case "corrupted":
    case "storageFailure":
      return { message: withDetail(vscode.l10n.t("This session's files are damaged and cannot be used. Other sessions are not affected."), message), steps: [logs()] };
    default:
      return { message, steps: [logs()] };
  }
}

function restart(): Step {
  return { title: vscode.l10n.t("Restart Server"), command: "timeleap.restartServer" };
}

export function logs(): Step {
  return { title: vscode.l10n.t("Show Logs"), command: "timeleap.showLogs" };
}

function install(): Step {
  return { title: vscode.l10n.t("Install"), command: "timeleap.installServer" };
}

export function openSettings(): Step {
  return { title: vscode.l10n.t("Open Settings"), command: "workbench.action.openSettings", arguments: ["@ext:timeleap.timeleap"] };
}

function getPython(): Step {
  return { title: vscode.l10n.t("Get Python"), command: "vscode.open", arguments: ["https://www.python.org/downloads/"] };
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
