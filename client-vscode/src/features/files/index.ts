/** Files of the workspace that go back with a conversation. */

import * as vscode from "vscode";
import type { Feature } from "../../core/core.js";
import { fileCommands } from "./fileCommands.js";
import { FileContents } from "./fileContents.js";

export const files: Feature = (core) => vscode.Disposable.from(new FileContents(core.sessions), core.commands(fileCommands(core)));
