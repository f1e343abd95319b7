/** Sessions as files: written for people or for another store, and read from the files of others. */

import { join } from "node:path";
import * as vscode from "vscode";
import type { Loss } from "timeleap-client";
import type { Session } from "../../core/sessions/session.js";
import { folderOf } from "../../shared/workspaces.js";
import { exact, oneLine } from "../../shared/text/format.js";
import { sayInformation } from "../../shared/text/say.js";
import { ChosenSession } from "../../kit/chosen.js";
import { withProgress } from "../../shared/progress.js";
import type { Handlers, Workbench } from "../../core/commands/register.js";
import { report } from "../../core/commands/report.js";
import { requireTrust, shownSession } from "../../core/commands/targets.js";
import { chooseFormat, FORMATS, type Format } from "./formats.js";
import { titleOf } from "../../shared/text/titles.js";
import { headed, sentences } from "../../shared/text/detail.js";

export function transferCommands(bench: Workbench): Handlers {
  return {
    exportSession: (node) => exportSession(bench, node),
    importSession: () => importSession(bench),
  };
}

async function exportSession(bench: Workbench, node: unknown): Promise<void> {
  const id = node instanceof ChosenSession ? node.info.sessionId : shownSession(bench.sessions).id;
  const format = await chooseFormat(vscode.l10n.t("Export as what?"));
  if (!format) {
    return;
  }
  await bench.sessions.withOpen(id, async (session) => {
    const file = await chooseFile(session, format);
    if (file) {
      // Whether to replace a file has been asked by the dialog.
      const params = { format, path: file.fsPath, overwrite: true };
      const { losses } = await withProgress(titleOf("exportSession"), ({ options }) => session.request("session/export", params, options));
      tell(bench, vscode.l10n.t("Exported to {0}", file.fsPath), losses, { title: vscode.l10n.t("Open"), run: () => look(file, format) });
    }
  });
}

async function chooseFile(session: Session, format: Format): Promise<vscode.Uri | undefined> {
  const { extension, name: kind } = FORMATS[format];
  const name = `${session.name.replace(/[/\\?#:*"<>|\s]+/gu, " ").trim() || session.id}.${extension}`;
  const folder = folderOf(session.state.workspace);
  return vscode.window.showSaveDialog({
    filters: { [kind]: [extension] },
    title: titleOf("exportSession"),
    ...(folder === undefined ? {} : { defaultUri: vscode.Uri.file(join(folder, name)) }),
  });
}

async function look(file: vscode.Uri, format: Format): Promise<void> {
  if (format === "markdown") {
    await vscode.window.showTextDocument(await vscode.workspace.openTextDocument(file));
  } else if (format === "html") {
    await vscode.env.openExternal(file);
  } else {
    await vscode.commands.executeCommand("revealFileInOS", file);
  }
}

async function importSession(bench: Workbench): Promise<void> {
  requireTrust();
  const [file] = (await vscode.window.showOpenDialog({ canSelectFiles: true, title: titleOf("importSession"), openLabel: vscode.l10n.t("Open") })) ?? [undefined];
  if (!file) {
    return;
  }
  const state = await withProgress(titleOf("importSession"), ({ options }) => bench.sidecar.request("session/import", { path: file.fsPath }, options));
  const session = bench.sessions.adopt({}, state);
  bench.sessions.show(session);
  tell(bench, vscode.l10n.t("Imported as “{0}”.", session.name), state.losses);
}

interface Step {
  readonly title: string;
  readonly run: () => Promise<void>;
}

/** Says what was done and what did not come along. Nobody waits for the answer. */
function tell(bench: Workbench, message: string, losses: readonly Loss[], ...more: readonly Step[]): void {
  const title = vscode.l10n.t("Left Out");
  const all = async (): Promise<void> => {
    const detail = losses.map((loss) => oneLine(loss.message, 300)).join("\n");
    await vscode.window.showInformationMessage(title, { modal: true, detail });
  };
  const steps = [...more, ...(losses.length === 0 ? [] : [{ title, run: all }])];
  const said = losses.length === 0 ? message : sentences(message, headed(title, exact(losses.length)));
  void sayInformation(said, ...steps.map((step) => step.title)).then(async (chosen) => {
    try {
      await steps.find((step) => step.title === chosen)?.run();
    } catch (error) {
      await report(error, bench);
    }
  });
}
