/** Whether the files of a session's folder are saved: switching it, and the question that is asked once in a git folder. */

import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import * as vscode from "vscode";
import { canonicalFolderUri, type FilesSettings, type SessionOpenParams } from "timeleap-client";
import type { Core } from "../../core/core.js";
import type { Workbench } from "../../core/commands/register.js";
import { Refusal, report } from "../../core/commands/report.js";
import type { Session } from "../../core/sessions/session.js";
import { folderOf, isAmong, workspaces, type Workspace } from "../../shared/workspaces.js";
import { problemInWords } from "../../shared/text/filesProblem.js";
import { Disposables } from "../../shared/lifecycle.js";
import { sayInformation } from "../../shared/text/say.js";
import { readSettings } from "../../shared/settings.js";
import { titleOf } from "../../shared/text/titles.js";

export type Mode = FilesSettings["mode"];

/** Where the answers are remembered, by the folder's URI. */
const ANSWERS = "timeleap.files";

/** Switches it for a session. @throws Refusal with the reason why no snapshot can be taken */
export async function switchFiles({ sidecar }: Pick<Workbench, "sidecar">, session: Session, files: FilesSettings): Promise<void> {
  const { path } = session.how;
  const which = path === undefined ? { sessionId: session.id, create: false } : { path };
  session.take(await sidecar.request("session/open", { ...which, files }));
  const { problem } = session.state.files ?? {};
  if (files.mode !== "off" && problem) {
    throw new Refusal(problemInWords(problem));
  }
}

/** Whether a folder is in a git repository, be it one of its own or a larger one. */
export function isInRepository(folder: string): boolean {
  return existsSync(join(folder, ".git")) || (dirname(folder) !== folder && isInRepository(dirname(folder)));
}

export class Saving extends Disposables {
  /** Folders that were asked about in this window: a question that was put away comes again in the next one. */
  private readonly asked = new Set<string>();

  constructor(private readonly core: Core) {
    super();
    const { sessions } = core;
    sessions.ofNew = (workspace) => this.ofNew(workspace);
    this.register(sessions.onDidChangeShown((session) => {
      if (session) {
        void this.consider(session).catch((error: unknown) => report(error, core));
      }
    }));
  }

  /** What was chosen for a session holds for those to come in its folder. */
  async remember(session: Session, mode: Mode): Promise<void> {
    const folder = folderFor(session);
    if (folder) {
      await this.core.context.workspaceState.update(ANSWERS, { ...this.answers, [folder.uri]: mode });
    }
  }

  private get answers(): Readonly<Record<string, Mode>> {
    return this.core.context.workspaceState.get<Record<string, Mode>>(ANSWERS) ?? {};
  }

  private ofNew(workspace: string): Pick<SessionOpenParams, "files"> {
    const { filesMode } = readSettings();
    const mode = filesMode === "ask" ? (this.answers[canonicalFolderUri(workspace)] ?? "off") : filesMode;
    return mode === "off" ? {} : { files: { mode } };
  }

  /** Of a session that has never saved files: asks about its folder, or does what was answered. */
  private async consider(session: Session): Promise<void> {
    const { files } = session.state;
    const folder = folderFor(session);
    if (!folder || !session.writable || files?.mode !== "off" || files.snapshots > 0 || readSettings().filesMode !== "ask") {
      return;
    }
    const answer = this.answers[folder.uri] ?? (await this.ask(session, folder));
    // A conversation of no folder, such as the sample, is not about these files.
    if (answer !== undefined && answer !== "off" && session.state.workspace !== undefined) {
      await switchFiles(this.core, session, { mode: answer });
    }
  }

  /** Undefined: nothing was answered, or it is taken back again. */
  private async ask(session: Session, folder: Workspace): Promise<Mode | undefined> {
    const path = folderOf(folder.uri);
    if (this.asked.has(folder.uri) || path === undefined || !isInRepository(path)) {
      return undefined;
    }
    this.asked.add(folder.uri);
    const save = vscode.l10n.t("Save Files");
    const never = vscode.l10n.t("Don't Save");
    const question = vscode.l10n.t("Save the files of “{0}” at each checkpoint, outside its git repository, so that Restore brings them back, too?", folder.name);
    const chosen = await sayInformation(question, save, never);
    if (chosen === undefined) {
      return undefined;
    }
    const mode = chosen === save ? "checkpoint" : "off";
    await this.remember(session, mode);
    if (mode !== "off") {
      void this.offerBack(session).catch((error: unknown) => report(error, this.core));
    }
    return mode;
  }

  /** One press takes the answer back. */
  private async offerBack(session: Session): Promise<void> {
    const undo = titleOf("undo");
    const chosen = await sayInformation(vscode.l10n.t("Files of the workspace are saved from the next checkpoint on."), undo);
    if (chosen === undo) {
      await this.remember(session, "off");
      await this.core.sessions.withOpen(session.id, (open) => switchFiles(this.core, open, { mode: "off" }));
    }
  }
}

/** The folder of this window whose files a session is about: its own, or for a session of none the first one. */
function folderFor({ state: { workspace } }: Session): Workspace | undefined {
  const folders = workspaces();
  return workspace === undefined ? folders[0] : folders.find((folder) => isAmong([folder], workspace));
}
