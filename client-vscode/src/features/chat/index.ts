/** Tools for the models of chat in the editor. */

import * as vscode from "vscode";
import type { Feature } from "../../core/core.js";
import { toolsOf } from "./tools.js";

export const chat: Feature = (core) => {
  const tools = Object.entries(toolsOf(core));
  return vscode.Disposable.from(...tools.map(([name, tool]) => vscode.lm.registerTool(`timeleap_${name}`, tool)));
};
