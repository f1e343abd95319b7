/** Conversations as documents, compared in the diff editor. */

import * as vscode from "vscode";
import type { Feature } from "../../core/core.js";
import { compareCommands } from "./compareCommands.js";
import { documentCommands } from "./documentCommands.js";
import { Documents } from "./documents.js";
import { SetAside } from "./setAside.js";

export const documents: Feature = (core) => {
  const shown = new Documents(core.sessions);
  core.documents = shown;
  return vscode.Disposable.from(shown, new SetAside(core.sessions), core.commands({ ...documentCommands(core), ...compareCommands(core) }));
};
