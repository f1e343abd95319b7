/** Wires the parts together; nothing is started before a view or a command needs it. */

import * as vscode from "vscode";
import { registerCommands, type Workbench } from "./commands/register.js";
import { serverCommands } from "./commands/serverCommands.js";
import { sessionCommands } from "./commands/sessionCommands.js";
import { timeTravelCommands } from "./commands/timeTravel.js";
import { locateServer } from "./server/locate.js";
import { Sidecar } from "./server/sidecar.js";
import { surroundings } from "./server/surroundings.js";
import { Sessions } from "./sessions/sessions.js";
import { onDidChangeServerSettings, readSettings } from "./settings.js";
import { Views } from "./views/views.js";

let sidecar: Sidecar | undefined;

export function activate(context: vscode.ExtensionContext): void {
  const log = vscode.window.createOutputChannel("Timeleap", { log: true });
  const version = String((context.extension.packageJSON as { version?: unknown }).version);
  const server = (sidecar = new Sidecar({
    settings: readSettings,
    locate: (settings) => locateServer(settings, surroundings(() => undefined)),
    log,
    version,
  }));
  const sessions = new Sessions(server, context.workspaceState);
  const views = new Views(server, sessions);
  const bench: Workbench = { sidecar: server, sessions, views, log, context };
  context.subscriptions.push(
    log,
    server,
    sessions,
    views,
    ...registerCommands(bench, { ...serverCommands(bench), ...sessionCommands(bench), ...timeTravelCommands(bench) }),
    onDidChangeServerSettings(() => {
      if (server.state.kind !== "idle") {
        server.restart().catch(() => undefined);
      }
    }),
  );
}

/** The server finishes what it has accepted. */
export async function deactivate(): Promise<void> {
  await sidecar?.stop();
}
