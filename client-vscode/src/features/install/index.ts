/** A server in a private environment of the extension. */

import { join } from "node:path";
import type { Feature } from "../../core/core.js";
import { run } from "../../core/server/programs.js";
import { installCommand } from "./installCommand.js";
import { ManagedEnvironment } from "./managed.js";

export const install: Feature = (core) => {
  const { context, launching, log } = core;
  const managed = new ManagedEnvironment({
    storage: context.globalStorageUri.fsPath,
    wheels: join(context.extensionUri.fsPath, "dist", "wheels"),
    version: launching.version,
    run,
    log,
  });
  core.privatePython = () => managed.python;
  return core.commands(installCommand(core, managed));
};
