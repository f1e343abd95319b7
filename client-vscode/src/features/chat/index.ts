/** Tools for the models of chat in the editor. */

import * as vscode from "vscode";
import type { Feature } from "../../core/core.js";
import { registerTools } from "./tools.js";

export const chat: Feature = (core) => vscode.Disposable.from(...registerTools(core));
