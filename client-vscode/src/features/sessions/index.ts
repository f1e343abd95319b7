/** Opening, naming and putting away sessions. */

import * as vscode from "vscode";
import type { Feature } from "../../core/core.js";
import { lookAgain, newestOfWorkspace } from "./newest.js";
import { sessionCommands } from "./sessionCommands.js";

export const sessions: Feature = (core) => {
  core.sessions.suggest = () => newestOfWorkspace(core.sessions);
  return vscode.Disposable.from(lookAgain(core.sidecar, core.sessions), core.commands(sessionCommands(core)));
};
