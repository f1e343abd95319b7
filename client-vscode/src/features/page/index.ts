/** The conversation as a page. */

import { join } from "node:path";
import * as vscode from "vscode";
import type { Feature } from "../../core/core.js";
import { compareCommands } from "./compareCommands.js";
import { ConversationPages } from "./pages.js";

export const page: Feature = (core) => {
  const pages = new ConversationPages(core, join(core.context.extensionUri.fsPath, "dist", "webview"));
  return vscode.Disposable.from(pages, core.commands({ ...pages.handlers(), ...compareCommands(core) }));
};
