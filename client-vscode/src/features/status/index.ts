/** How full the context window is, and news of the server. */

import * as vscode from "vscode";
import type { Feature } from "../../core/core.js";
import { News } from "./notifications.js";
import { TokenItem } from "./statusBar.js";
import { UndoItem } from "./undoItem.js";

export const status: Feature = ({ sidecar, sessions, log }) =>
  vscode.Disposable.from(new TokenItem(sessions, sidecar.staleness), new UndoItem(sessions), new News(sidecar, sessions, log));
