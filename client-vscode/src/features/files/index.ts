/** Files of the workspace that go back with a conversation. */

import * as vscode from "vscode";
import type { Feature } from "../../core/core.js";
import { makeWithFiles } from "../../kit/restoring.js";
import { fileCommands } from "./fileCommands.js";
import { FileContents } from "./fileContents.js";
import { Saving } from "./saving.js";

export const files: Feature = (core) => {
  core.changes.make = makeWithFiles(core);
  const saving = new Saving(core);
  return vscode.Disposable.from(saving, new FileContents(core.sessions), core.commands(fileCommands(core, saving)));
};
