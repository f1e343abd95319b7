/**
 * Wires the parts together. The server is started when a view or a command needs it, and ahead of that in a window that showed a
 * session before: its start would be most of the time from the click to the first row.
 */

import { join } from "node:path";
import * as vscode from "vscode";
import { registerMcpServer } from "./features/mcp/mcpServer.js";
import { registerTools } from "./features/chat/tools.js";
import { createApi } from "./features/api/api.js";
import type { TimeleapApi } from "./features/api/apiTypes.js";
import { approvalCommands } from "./features/approvals/approvalCommands.js";
import { ApprovalQuestions } from "./features/approvals/approvalQuestions.js";
import { compactCommand } from "./features/compact/compactCommand.js";
import { dmailCommands } from "./features/dmail/dmailCommands.js";
import { compareCommands } from "./features/documents/compareCommands.js";
import { findingCommands } from "./features/search/findingCommands.js";
import { documentCommands } from "./features/documents/documentCommands.js";
import { fileCommands } from "./features/files/fileCommands.js";
import { installCommand } from "./features/install/installCommand.js";
import { pinCommands } from "./features/pins/pinCommands.js";
import { registerCommands, titleCommandsOf, type Handlers, type Workbench } from "./core/commands/register.js";
import { searchCommands } from "./features/search/searchCommands.js";
import { serverCommands } from "./core/commands/serverCommands.js";
import { sessionCommands } from "./features/sessions/sessionCommands.js";
import { timeTravelCommands } from "./core/restore/timeTravel.js";
import { transferCommands } from "./features/transfer/transferCommands.js";
import { Documents } from "./features/documents/documents.js";
import { SetAside } from "./features/documents/setAside.js";
import { FileContents } from "./features/files/fileContents.js";
import { ConversationPages } from "./features/page/pages.js";
import { locateServer } from "./core/server/locate.js";
import { ManagedEnvironment } from "./features/install/managed.js";
import { run } from "./core/server/programs.js";
import { Sidecar } from "./core/server/sidecar.js";
import { environment } from "./core/server/environment.js";
import { Approvals } from "./features/approvals/approvals.js";
import { Prompts } from "./features/api/prompts.js";
import { Sessions } from "./core/sessions/sessions.js";
import { onDidChangeServerSettings, readSettings, type Settings } from "./shared/settings.js";
import { registerBadges } from "./core/tree/badges.js";
import { News } from "./features/status/notifications.js";
import { UndoItem } from "./core/restore/undoItem.js";
import { StatusBar } from "./features/status/statusBar.js";
import { Views } from "./core/tree/views.js";

/** Of this window; `deactivate` gets no argument. */
let sidecar: Sidecar | undefined;

export function activate(context: vscode.ExtensionContext): TimeleapApi {
  const log = vscode.window.createOutputChannel("Timeleap", { log: true });
  const version = String((context.extension.packageJSON as { version?: unknown }).version);
  const managed = new ManagedEnvironment({
    storage: context.globalStorageUri.fsPath,
    wheels: join(context.extensionUri.fsPath, "dist", "wheels"),
    version,
    run,
    log,
  });
  const launching = {
    settings: readSettings,
    locate: (settings: Settings) => locateServer(settings, environment(() => managed.python)),
    log,
    version,
  };
  const server = new Sidecar(launching);
  sidecar = server;
  const sessions = new Sessions(server, context.workspaceState);
  const approvals = new Approvals(server, sessions);
  const views = new Views(server, sessions, approvals);
  const documents = new Documents(sessions);
  const prompts = new Prompts(log);
  const bench: Workbench = { sidecar: server, sessions, views, documents, approvals, prompts, log };
  const pages = new ConversationPages(bench, join(context.extensionUri.fsPath, "dist", "webview"));
  context.subscriptions.push(
    log,
    server,
    sessions,
    views,
    documents,
    new FileContents(sessions),
    approvals,
    new StatusBar(sessions, approvals, server.staleness),
    new UndoItem(sessions),
    new SetAside(sessions),
    registerBadges(),
    new ApprovalQuestions(bench),
    new News(server, sessions, log),
    pages,
    ...registerCommands(bench, { ...commandsOf(bench, managed), ...pages.handlers() }, titleCommandsOf(context.extension.packageJSON)),
    ...registerTools(bench),
    ...registerMcpServer(launching),
    onDidChangeServerSettings(() => void restart(server)),
    vscode.workspace.onDidGrantWorkspaceTrust(() => void trusted(server, sessions)),
  );
  if (sessions.remembered && vscode.workspace.isTrusted) {
    void server.started().catch(() => undefined); // the views say why
  }
  return createApi(sessions, prompts);
}

/** The server finishes what it has accepted. */
export async function deactivate(): Promise<void> {
  await sidecar?.stop();
}

function commandsOf(bench: Workbench, managed: ManagedEnvironment): Handlers {
  return {
    ...serverCommands(bench),
    ...installCommand(bench, managed),
    ...sessionCommands(bench),
    ...timeTravelCommands(bench),
    ...compactCommand(bench),
    ...dmailCommands(bench),
    ...documentCommands(bench),
    ...compareCommands(bench),
    ...findingCommands(bench),
    ...fileCommands(bench),
    ...transferCommands(bench),
    ...searchCommands(bench),
    ...pinCommands(bench),
    ...approvalCommands(bench),
  };
}

/** With other settings another server may be found. What goes wrong is in the views. */
async function restart(server: Sidecar): Promise<void> {
  if (server.state.kind !== "idle") {
    await server.restart().catch(() => undefined);
  }
}

/** A server may be found now that was not looked at before; sessions may be changed now. */
async function trusted(server: Sidecar, sessions: Sessions): Promise<void> {
  if (server.state.kind === "idle") {
    return;
  }
  // The workspace's settings count from now on as well, and may be having the server restarted at this moment.
  await (server.state.kind === "failed" ? server.restart() : server.started()).catch(() => undefined);
  if (server.state.kind === "ready") {
    await sessions.reopenForWriting().catch(() => undefined);
  }
}
