/** The core: the server, the open sessions, the tree and going back. Features get it, and add what they are about. */

import * as vscode from "vscode";
import { Disposables } from "../shared/lifecycle.js";
import { onDidChangeServerSettings, readSettings, type Settings } from "../shared/settings.js";
import { registerCommands, titleCommandsOf, type Handlers } from "./commands/register.js";
import { serverCommands } from "./commands/serverCommands.js";
import { Changes } from "./restore/changes.js";
import { timeTravelCommands } from "./restore/timeTravel.js";
import { launchOf } from "./server/launch.js";
import { Sidecar, type SidecarOptions } from "./server/sidecar.js";
import { Sessions } from "./sessions/sessions.js";
import { Views } from "./tree/views.js";

/** Adds something to the core. What it returns is put away with the window. */
export type Feature = (core: Core) => vscode.Disposable;

export class Core extends Disposables {
  readonly log = this.register(vscode.window.createOutputChannel("Timeleap", { log: true }));
  readonly launching: SidecarOptions;
  readonly sidecar: Sidecar;
  readonly sessions: Sessions;
  readonly views: Views;
  readonly changes = new Changes();
  /** Finds the server; the feature that looks around on this machine sets another one. @throws ServerFailure */
  locate: SidecarOptions["locate"] = (settings) => Promise.resolve(launchOf(settings));

  constructor(readonly context: vscode.ExtensionContext) {
    super();
    this.launching = {
      settings: readSettings,
      locate: (settings: Settings) => this.locate(settings),
      log: this.log,
      version: String((context.extension.packageJSON as { version?: unknown }).version),
    };
    this.sidecar = this.register(new Sidecar(this.launching));
    this.sessions = this.register(new Sessions(this.sidecar, context.workspaceState));
    this.views = this.register(new Views(this.sidecar, this.sessions));
    this.register(this.commands({ ...serverCommands(this), ...timeTravelCommands(this) }));
    // With trust the settings of the workspace count, and sessions that were only looked at are opened for writing.
    this.register(onDidChangeServerSettings(() => void this.restart()));
    this.register(vscode.workspace.onDidGrantWorkspaceTrust(() => void this.restart()));
  }

  /** Registers `timeleap.<name>` for each handler. */
  commands(handlers: Handlers): vscode.Disposable {
    return vscode.Disposable.from(...registerCommands(this, handlers, titleCommandsOf(this.context.extension.packageJSON)));
  }

  /** In a window that showed a session before, the server is started ahead of the first click: its start would be most of the time to the first row. */
  warmUp(): void {
    if (this.sessions.remembered && vscode.workspace.isTrusted) {
      void this.sidecar.started().catch(() => undefined); // the views say why
    }
  }

  /** Another server may be found now. What goes wrong is in the views. */
  private async restart(): Promise<void> {
    if (this.sidecar.state.kind !== "idle") {
      await this.sidecar.restart().catch(() => undefined);
    }
  }
}
