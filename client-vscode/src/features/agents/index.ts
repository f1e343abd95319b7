/** The way in: agents of this machine are connected, the server is installed, a sample is there to try. */

import { join } from "node:path";
import * as vscode from "vscode";
import type { Feature } from "../../core/core.js";
import { restoreTo } from "../../core/restore/timeTravel.js";
import { titleOf } from "../../shared/text/titles.js";
import { run } from "../../shared/programs.js";
import { Connections } from "./connecting.js";
import { continueElsewhere } from "./continuing.js";
import { environment } from "./environment.js";
import { Installation } from "./install.js";
import { locateServer } from "./locate.js";
import { ManagedEnvironment } from "./managed.js";
import { openSample } from "./sample.js";

export const agents: Feature = (core) => {
  const { context, launching, log } = core;
  const managed = new ManagedEnvironment({
    storage: context.globalStorageUri.fsPath,
    wheels: join(context.extensionUri.fsPath, "dist", "wheels"),
    version: launching.version,
    run,
    log,
  });
  core.locate = (settings) => locateServer(settings, environment(() => managed.python));
  core.changes.elsewhere = continueElsewhere;
  const installation = new Installation(core, managed);
  const connections = new Connections(core, installation);
  return vscode.Disposable.from(
    connections,
    core.commands({
      // Restore in a read-only copy, by the names that it has there.
      continueInClaudeCode: (node) => restoreTo(core, node, true, titleOf("continueInClaudeCode")),
      continueInItsProgram: (node) => restoreTo(core, node, true, titleOf("continueInItsProgram")),
      connect: (kind) => connections.connect(kind),
      openSample: () => openSample(core, installation),
      installServer: () => installation.ask(),
    }),
  );
};
