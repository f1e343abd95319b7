/** The folders of this window, as sessions name their workspace. */

import { canonicalFolderUri } from "timeleap-client";
import * as vscode from "vscode";

export interface Workspace {
  readonly uri: string;
  readonly name: string;
}

/** In their order in the window. */
export function workspaces(): Workspace[] {
  return (vscode.workspace.workspaceFolders ?? []).map(workspaceOf);
}

/** Whether a session's workspace is one of these. */
export function isAmong(folders: readonly Workspace[], workspace: string | undefined): boolean {
  const uri = workspace === undefined ? undefined : canonicalFolderUri(workspace);
  return folders.some((folder) => folder.uri === uri);
}

/** Where a new session belongs: the only folder, else the one a person chooses; null: none is open. Undefined: nothing was chosen. */
export async function chooseWorkspace(): Promise<Workspace | null | undefined> {
  const folders = vscode.workspace.workspaceFolders ?? [];
  if (folders.length < 2) {
    return folders[0] ? workspaceOf(folders[0]) : null;
  }
  const chosen = await vscode.window.showWorkspaceFolderPick({ placeHolder: vscode.l10n.t("The folder that the session is about") });
  return chosen && workspaceOf(chosen);
}

/** The local path of a session's workspace; else of the first folder of the window. */
export function folderOf(workspace: string | undefined): string | undefined {
  const folders = vscode.workspace.workspaceFolders ?? [];
  return (folders.find((folder) => isAmong([workspaceOf(folder)], workspace)) ?? folders[0])?.uri.fsPath;
}

function workspaceOf({ uri, name }: vscode.WorkspaceFolder): Workspace {
  return { uri: canonicalFolderUri(uri.toString()), name };
}
