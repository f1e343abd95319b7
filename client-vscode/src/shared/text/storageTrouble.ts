/** What the operating system refused, in words, with what can be done about it. */

import { basename, dirname } from "node:path";
import * as vscode from "vscode";
import { sentences, withDetail } from "./detail.js";
import { isTimeleapError, messageOf } from "../errors.js";

/** The names are context values of the manifest. */
export type StorageTroubleKind = "diskFull" | "quotaUsedUp" | "diskReadOnly" | "noPermission" | "storageRefused" | "databaseRefused";

export interface StorageTrouble {
  readonly kind: StorageTroubleKind;
  /** What was wrong. */
  readonly what: string;
  /** What to do, and where. */
  readonly next: string;
  /** The database was lost during a commit, and has not said how that turned out. */
  readonly outcomeUnknown?: boolean;
}

/** A file is not what it has to be: a directory, a link. */
const WRONG_KIND_OF_FILE: ReadonlySet<unknown> = new Set(["EINVAL", "EISDIR", "ENOTDIR", "ELOOP", "ENXIO"]);

/** Undefined: the error is of another kind, or the files themselves are wrong, not where they are. */
export function storageTroubleOf(error: unknown): StorageTrouble | undefined {
  if (!isTimeleapError(error, "storageFailure")) {
    return undefined;
  }
  const { errno, path, store, outcome } = error.data as Readonly<Record<string, unknown>>;
  if (store !== undefined) {
    const what = withDetail(vscode.l10n.t("The database that the sessions are in cannot be used."), error.message);
    return { kind: "databaseRefused", what, next: nextAfter("databaseRefused"), outcomeUnknown: outcome === "unknown" };
  }
  if (WRONG_KIND_OF_FILE.has(errno)) {
    return undefined;
  }
  const kind = KINDS[String(errno)] ?? "storageRefused";
  const what = kind === "storageRefused" ? refused(error.message, path) : withDetail(nameOf(kind), typeof path === "string" ? placeOf(path) : "");
  return { kind, what, next: nextAfter(kind) };
}

/** What an error says, and of the operating system's what to do about it. */
export function troubleInWords(error: unknown): string {
  const trouble = storageTroubleOf(error);
  return trouble ? sentences(trouble.what, trouble.next) : messageOf(error);
}

/** What a person knows of a path: the folder of a file that only the server has a use for. */
function placeOf(path: string): string {
  return basename(path).startsWith(".") ? dirname(path) : path;
}

function refused(message: string, path: unknown): string {
  const told = typeof path === "string" && path !== "" ? message.replaceAll(path, placeOf(path)) : message;
  return withDetail(vscode.l10n.t("The operating system refused."), told);
}

const KINDS: Readonly<Record<string, Exclude<StorageTroubleKind, "databaseRefused">>> = {
  ENOSPC: "diskFull",
  EDQUOT: "quotaUsedUp",
  EROFS: "diskReadOnly",
  EACCES: "noPermission",
  EPERM: "noPermission",
};

function nameOf(kind: Exclude<StorageTroubleKind, "storageRefused" | "databaseRefused">): string {
  switch (kind) {
    case "diskFull":
    case "quotaUsedUp":
      return vscode.l10n.t("The disk is full, or your quota is used up.");
    case "diskReadOnly":
      return vscode.l10n.t("The disk is read-only.");
    case "noPermission":
      return vscode.l10n.t("Permission is denied.");
  }
}

function nextAfter(kind: StorageTroubleKind): string {
  switch (kind) {
    case "diskFull":
    case "quotaUsedUp":
      return vscode.l10n.t("Make room, then try again.");
    case "diskReadOnly":
    case "noPermission":
      return vscode.l10n.t("Change that or choose another place, then try again.");
    case "storageRefused":
    case "databaseRefused":
      return vscode.l10n.t("Try again; the log has the details.");
  }
}
