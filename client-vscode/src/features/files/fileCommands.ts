/** Files of the workspace: looking at what changed, putting one back, and whether snapshots are taken at all. */

import * as vscode from "vscode";
import { fileUri } from "./fileContents.js";
import type { Session } from "../../core/sessions/session.js";
import { chooseWorkspace } from "../../shared/workspaces.js";
import { named, diskPath, nameAndFolder, shownPath } from "../../shared/text/paths.js";
import { sayInformation, withoutIcons } from "../../shared/text/say.js";
import { FileNode, kindName } from "../../kit/fileNodes.js";
import type { Handlers, Workbench } from "../../core/commands/register.js";
import { Refusal, thereIsNone } from "../../core/commands/report.js";
import { filesAmount, filesToRestore, restoreFiles, settleConflicts, offerFilesBack } from "../../kit/restoring.js";
import { target, writableSession, requireTrust } from "../../core/commands/targets.js";
import { switchFiles, type Mode, type Saving } from "./saving.js";
import { verbOf } from "../../shared/text/titles.js";
import { headed } from "../../shared/text/detail.js";

export function fileCommands(bench: Workbench, saving: Pick<Saving, "remember">): Handlers {
  return {
    openFileChange: (node) => openFileChange(bench, node),
    compareFileWithDisk: (node) => compareWithDisk(bench, node),
    restoreFile: (node) => restoreFile(bench, node),
    setFilesMode: () => setFilesMode(bench, saving),
  };
}

function chosenFile(bench: Workbench, node: unknown): FileNode {
  const row = target(FileNode, node, bench.views.checkpoints);
  if (!row) {
    throw thereIsNone(vscode.l10n.t("Changed Files"));
  }
  return row;
}

/** A file that changed: a row, or named by the page. */
type Changed = Pick<FileNode, "range" | "change">;

/** The two states in the diff editor; what was not there is empty. */
async function openFileChange(bench: Workbench, node: unknown): Promise<void> {
  const row = isChanged(node) ? node : chosenFile(bench, node);
  const { range, change } = row;
  const left = saved(row, change.kind === "added" ? undefined : range.from);
  const right = change.kind === "deleted" ? saved(row, undefined) : range.to === undefined ? onDisk(row) : saved(row, range.to);
  const [name] = nameAndFolder(change);
  const title = range.to === undefined ? untilNow(name) : name;
  await vscode.commands.executeCommand("vscode.diff", left, right, headed(title, kindName(change.kind)), { preview: true, preserveFocus: true });
}

/** The title of a diff between a file as it was and as it is on the disk. */
function untilNow(name: string): string {
  return `${name} ↔ ${vscode.l10n.t("Present")}`;
}

function isChanged(node: unknown): node is Changed {
  const { range, change } = (node ?? {}) as Partial<Record<keyof Changed, unknown>>;
  return range !== undefined && change !== undefined;
}

/** How the file was at the end of what the row is about, beside what is on the disk now. */
async function compareWithDisk(bench: Workbench, node: unknown): Promise<void> {
  const row = chosenFile(bench, node);
  const { range, change } = row;
  const left = saved(row, change.kind === "added" ? range.to : range.from);
  const right = onDisk(row);
  const there = await vscode.workspace.fs.stat(right).then(
    () => true,
    () => false,
  );
  const [name] = nameAndFolder(change);
  const title = there ? untilNow(name) : headed(untilNow(name), kindName("deleted"));
  await vscode.commands.executeCommand("vscode.diff", left, there ? right : saved(row, undefined), title, { preview: true, preserveFocus: true });
}

function saved({ range, change }: Changed, snapshot: string | undefined): vscode.Uri {
  return fileUri({ session: range.session.id, ...(snapshot === undefined ? {} : { snapshot }), ...named(change) });
}

function onDisk({ range, change }: Changed): vscode.Uri {
  const file = diskPath(change, range.session.state.files?.roots[0]);
  if (file === undefined) {
    throw new Refusal(vscode.l10n.t("The editor cannot open “{0}” from the disk: its name is not valid UTF-8, or it is not inside the workspace.", shownPath(change)));
  }
  return vscode.Uri.file(file);
}

/** One file as it was at the checkpoint. */
async function restoreFile(bench: Workbench, node: unknown): Promise<void> {
  const row = chosenFile(bench, node);
  requireTrust();
  const { session, from } = row.range;
  const only = named(row.change);
  const { files } = await session.request("files/restore", { ...filesToRestore(from, only), dryRun: true });
  const amount = files ? filesAmount(files) : "";
  if (!files || (amount === "" && files.conflicts === 0)) {
    throw new Refusal(headed(row.path, vscode.l10n.t("Its text is the same.")));
  }
  const onConflict = files.conflicts > 0 ? await settleConflicts(files.conflictPaths ?? [only], files.conflicts) : undefined;
  if (files.conflicts === 0 || onConflict !== undefined) {
    const done = await restoreFiles(session, from, only, onConflict === undefined ? {} : { onConflict });
    offerFilesBack(bench, session, done.files);
  }
}

/** When snapshots are taken in the shown session. Only that is sent: what is left out and the limits stay as they are set. */
async function setFilesMode(bench: Workbench, saving: Pick<Saving, "remember">): Promise<void> {
  const session = writableSession(bench.sessions);
  const { files } = session.state;
  if (!files) {
    throw new Refusal(vscode.l10n.t("Files of the workspace are not saved."));
  }
  const mode = await pickMode(session, files.mode);
  if (mode === undefined || (mode === files.mode && files.problem === undefined)) {
    return;
  }
  const roots = await rootsFor(session, mode);
  if (roots === undefined) {
    return;
  }
  await saving.remember(session, mode);
  await switchFiles(bench, session, { mode, ...roots });
  void sayInformation(mode === "off" ? vscode.l10n.t("Files of the workspace are not saved.") : vscode.l10n.t("Files of the workspace are saved from the next checkpoint on."));
}

async function pickMode(session: Session, present: Mode): Promise<Mode | undefined> {
  const modes: readonly { readonly mode: Mode; readonly label: string }[] = [
    { mode: "checkpoint", label: vscode.l10n.t("At each checkpoint") },
    { mode: "turn", label: vscode.l10n.t("At each checkpoint and each end of a turn") },
    { mode: "off", label: vscode.l10n.t("Never") },
  ];
  const items = modes.map(({ mode, label }) => ({ mode, label, ...(mode === present ? { iconPath: new vscode.ThemeIcon("check") } : {}) }));
  return (await vscode.window.showQuickPick(items, { title: headed(verbOf("setFilesMode"), withoutIcons(session.name)) }))?.mode;
}

/** A session of no workspace is given the one of this window. Undefined: nothing was chosen. */
async function rootsFor({ state }: Session, mode: Mode): Promise<{ readonly roots?: string[] } | undefined> {
  if (mode === "off" || state.workspace !== undefined || (state.files?.roots.length ?? 0) > 0) {
    return {};
  }
  const workspace = await chooseWorkspace();
  if (workspace === null) {
    throw new Refusal(vscode.l10n.t("This session belongs to no folder, and none is open in this window."));
  }
  return workspace && { roots: [workspace.uri] };
}
