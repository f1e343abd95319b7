/**
 * Changes of the conversation that can take the workspace's files along: what is asked before, what is done about files that somebody
 * else has changed, and how the change is carried out.
 */

import * as vscode from "vscode";
import type { FilePath, Methods, RestoredFiles, RewriteResult } from "timeleap-client";
import { isTimeleapError } from "../shared/errors.js";
import type { Session } from "../core/sessions/session.js";
import { withDetail } from "../shared/text/detail.js";
import { exact, files, listed } from "../shared/text/format.js";
import { shownPath } from "../shared/text/paths.js";
import type { Workbench } from "../core/commands/register.js";
import { send, type Change, type ChangeParams, type Make, type Question } from "../core/restore/changes.js";
import { offer } from "../core/restore/timeTravel.js";
import { titleOf } from "../shared/text/titles.js";
import { withLateProgress } from "../shared/progress.js";

/** What goes back, and what is done about files that somebody else has changed since. */
export interface Restoring {
  readonly restore: "conversation" | "files" | "both";
  readonly onConflict?: "keep" | "overwrite";
}

export const CONVERSATION: Restoring = { restore: "conversation" };

/** A dry run. `files`: what would happen to them; absent where they cannot go along, with the reason if there is one to tell. */
export interface Forecast<T> {
  readonly plan: T;
  readonly files?: RestoredFiles;
  readonly unavailable?: string;
}

/** Errors that keep files from going along, and the conversation from nothing. */
const WITHOUT_FILES = ["filesUnavailable", "filesTooLarge", "filesBusy", "filesIncomplete", "snapshotNotFound"] as const;

/** The most names of files that a question shows. */
const NAMED = 10;

/** Asks what would happen, with the files if the session has snapshots of them. */
export async function forecast<M extends Change>(session: Session, method: M, params: ChangeParams<M>): Promise<Forecast<Methods[M]["result"]>> {
  const { mode, snapshots } = session.state.files ?? { mode: "off", snapshots: 0 };
  // The count is as of a moment ago: where snapshots are taken there may be the first one by now.
  if (mode === "off" && snapshots === 0) {
    return { plan: await send(session, method, { ...params, dryRun: true }) };
  }
  try {
    const asked = withLateProgress(vscode.l10n.t("Loading…"), ({ options }) => send(session, method, { ...params, dryRun: true, restore: "both" }, options));
    const plan = await asked;
    return plan.files ? { plan, files: plan.files } : { plan };
  } catch (error) {
    if (!WITHOUT_FILES.some((kind) => isTimeleapError(error, kind))) {
      throw error;
    }
    const plan = await send(session, method, { ...params, dryRun: true });
    return isTimeleapError(error, "snapshotNotFound") ? { plan } : { plan, unavailable: whyNoFiles(error) };
  }
}

/** Whether files would change along. */
export function touchesFiles({ files: changed }: Pick<Forecast<unknown>, "files">): boolean {
  return changed !== undefined && changed.added + changed.modified + changed.deleted + changed.conflicts > 0;
}

/**
 * What is to go back: the files too where they would change. Undefined: nothing.
 *
 * @param asks Whether a person is asked; else only about files that somebody has changed since.
 */
export async function decideRestoring(question: Question, forecasted: Pick<Forecast<unknown>, "files" | "unavailable">, asks: boolean): Promise<Restoring | undefined> {
  if (asks) {
    return chooseRestoring(question, forecasted);
  }
  const { files: changed } = forecasted;
  return changed && touchesFiles(forecasted) ? settled("both", changed) : CONVERSATION;
}

/** Asks what is to go back. Undefined: nothing. */
export async function chooseRestoring(
  question: Question,
  { files: changed, unavailable }: Pick<Forecast<unknown>, "files" | "unavailable">,
): Promise<Restoring | undefined> {
  const { message, button, filesOnly = false } = question;
  if (changed === undefined || !touchesFiles({ files: changed })) {
    const detail = unavailable === undefined ? question.detail : `${question.detail}\n\n${withDetail(vscode.l10n.t("Files stay as they are."), unavailable)}`;
    return (await vscode.window.showWarningMessage(message, { modal: true, detail }, button)) === button ? CONVERSATION : undefined;
  }
  const conversation = vscode.l10n.t("Conversation Only");
  const both = vscode.l10n.t("Conversation and Files");
  const alone = vscode.l10n.t("Files Only");
  const detail = [question.detail, filesDetail(changed)].join("\n\n");
  const chosen = await vscode.window.showWarningMessage(message, { modal: true, detail }, both, conversation, ...(filesOnly ? [alone] : []));
  if (chosen === conversation) {
    return CONVERSATION;
  }
  if (chosen !== both && chosen !== alone) {
    return undefined;
  }
  return settled(chosen === both ? "both" : "files", changed);
}

/** With what is done about files that somebody else has changed. Undefined: nothing is to go back. */
async function settled(restore: "both" | "files", { conflicts, conflictPaths = [] }: RestoredFiles): Promise<Restoring | undefined> {
  if (conflicts === 0) {
    return { restore };
  }
  const onConflict = await settleConflicts(conflictPaths, conflicts);
  return onConflict && { restore, onConflict };
}

/** What to do with files that somebody else has changed. Undefined: leave everything as it is. */
export async function settleConflicts(paths: readonly FilePath[], count: number): Promise<Restoring["onConflict"]> {
  const keep = vscode.l10n.t("Keep Mine");
  const overwrite = vscode.l10n.t("Overwrite; Undo Brings Them Back");
  const message = changedSince(count);
  const shown = paths.slice(0, NAMED).map(shownPath);
  const left = count - shown.length;
  const detail = [...shown, ...(left > 0 ? [vscode.l10n.t("… and {0} more", exact(left))] : [])].join("\n");
  const chosen = await vscode.window.showWarningMessage(message, { modal: true, detail }, keep, overwrite);
  return chosen === keep ? "keep" : chosen === overwrite ? "overwrite" : undefined;
}

/** Makes the change. What somebody changes between the question and now is asked about, too. */
export async function carryOut<M extends Change>(session: Session, method: M, params: ChangeParams<M>, { restore, onConflict }: Restoring): Promise<Methods[M]["result"]> {
  if (restore === "conversation") {
    return send(session, method, params);
  }
  return withConflicts((settled) =>
    withLateProgress(vscode.l10n.t("Putting files back…"), ({ options }) => {
      const conflicts = settled ?? onConflict;
      return send(session, method, { ...params, restore, ...(conflicts === undefined ? {} : { onConflict: conflicts }) }, options);
    }),
  );
}

/** Puts files back, all of them or some, and leaves the conversation as it is. */
export async function restoreFiles(
  session: Session,
  snapshot: string,
  only?: FilePath,
  { onConflict, expectedFiles }: { readonly onConflict?: Restoring["onConflict"]; readonly expectedFiles?: string | undefined } = {},
): Promise<Methods["files/restore"]["result"]> {
  return withConflicts((settled) =>
    withLateProgress(vscode.l10n.t("Putting files back…"), ({ options }) => {
      const conflicts = settled ?? onConflict;
      const params = {
        ...filesToRestore(snapshot, only),
        ...(conflicts === undefined ? {} : { onConflict: conflicts }),
        ...(expectedFiles === undefined ? {} : { expectedFiles }),
      };
      return session.request("files/restore", params, options);
    }),
  );
}

/** The params that say what is put back. */
export function filesToRestore(snapshot: string, only?: FilePath): Omit<Methods["files/restore"]["params"], "sessionId"> {
  if (only === undefined) {
    return { to: { snapshot } };
  }
  const { path, ...rest } = only;
  return { to: { snapshot }, paths: [path], ...rest };
}

/** "1 file put back, 2 files changed back"; for questions and for what was done. */
export function filesAmount({ added, modified, deleted, kept }: Pick<RestoredFiles, "added" | "modified" | "deleted" | "kept">): string {
  return listed([
    added === 0 ? "" : vscode.l10n.t("{0} put back", files(added)),
    modified === 0 ? "" : vscode.l10n.t("{0} changed back", files(modified)),
    deleted === 0 ? "" : vscode.l10n.t("{0} removed", files(deleted)),
    kept === 0 ? "" : vscode.l10n.t("{0} kept as it is", files(kept)),
  ]);
}

/** Behind what is said of the conversation, where files went along, or why they could not. */
export function andFiles(done: { readonly files?: RestoredFiles }, unavailable?: string): string {
  const amount = done.files ? filesAmount(done.files) : "";
  if (unavailable !== undefined) {
    return ` ${withDetail(vscode.l10n.t("Files stay as they are."), unavailable)}`;
  }
  return amount === "" ? "" : ` ${vscode.l10n.t("Files: {0}.", amount)}`;
}

function filesDetail(changed: RestoredFiles): string {
  const amount = filesAmount(changed);
  const conflicts = changed.conflicts;
  return [
    amount === "" ? "" : vscode.l10n.t("Files: {0}.", amount),
    conflicts === 0 ? "" : changedSince(conflicts),
  ]
    .filter((line) => line !== "")
    .join("\n");
}

function changedSince(count: number): string {
  return vscode.l10n.t("Changed after the conversation's last message, by you or another program: {0}.", files(count));
}

async function withConflicts<T>(change: (onConflict: Restoring["onConflict"]) => Promise<T>): Promise<T> {
  try {
    return await change(undefined);
  } catch (error) {
    if (!isTimeleapError(error, "filesConflict")) {
      throw error;
    }
    const { paths, more } = conflictsOf(error.data);
    const onConflict = await settleConflicts(paths, paths.length + more);
    if (onConflict === undefined) {
      throw new vscode.CancellationError();
    }
    return change(onConflict);
  }
}

function conflictsOf(data: object): { readonly paths: readonly FilePath[]; readonly more: number } {
  const { paths, more, pathEncoding } = data as { readonly paths?: unknown; readonly more?: unknown; readonly pathEncoding?: unknown };
  const encoded = pathEncoding === "percent" ? { pathEncoding } as const : {};
  const named = Array.isArray(paths) ? paths.filter((path) => typeof path === "string").map((path) => ({ path, ...encoded })) : [];
  return { paths: named, more: typeof more === "number" ? more : 0 };
}

function whyNoFiles(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Has the files go along, where they would change. */
export function makeWithFiles(bench: Workbench): Make {
  return async (session, method, params, ask, asks) => {
    const forecasted = await forecast(session, method, params);
    const restoring = await decideRestoring(ask(forecasted.plan), forecasted, asks);
    if (!restoring) {
      return undefined;
    }
    const { head } = forecasted.plan as Pick<RewriteResult, "head">;
    const done = await carryOut(session, method, { ...params, expectedHead: head }, restoring);
    const changed = done as { readonly files?: RestoredFiles };
    if (restoring.restore === "files") {
      offerFilesBack(bench, session, changed.files);
      return undefined;
    }
    return { done, also: andFiles(changed, forecasted.unavailable) };
  };
}

/** Says which files were put back, with the way back. */
export function offerFilesBack(bench: Workbench, session: Session, restored: RestoredFiles | undefined): void {
  const message = vscode.l10n.t("The conversation is as it was.") + andFiles({ ...(restored ? { files: restored } : {}) });
  const snapshot = restored?.before;
  const run = async (before: string): Promise<void> => offerFilesBack(bench, session, (await restoreFiles(session, before)).files);
  offer(bench, message, ...(snapshot === undefined ? [] : [{ title: titleOf("undo"), run: () => run(snapshot) }]));
}
