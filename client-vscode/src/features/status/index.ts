/** How full the context window is, how far one can go back, and news of the server. */

import * as vscode from "vscode";
import type { Feature } from "../../core/core.js";
import { stalenessOf } from "../../kit/staleness.js";
import { Line } from "./line.js";
import { News } from "./notifications.js";
import { OwnChanges } from "./ownChanges.js";
import { TokenItem } from "./statusBar.js";
import { UndoItem } from "./undoItem.js";
import { waysOut } from "./wayOut.js";

export const status: Feature = (core) => {
  const { sidecar, sessions, views, log } = core;
  views.added.rows.push({ instead: () => waysOut(sidecar.state, sessions.problem) });
  const own = new OwnChanges();
  sessions.before.push((_, method, params) => own.mark(method, params));
  return vscode.Disposable.from(new Line(core), new TokenItem(sessions, stalenessOf(sidecar)), new UndoItem(sessions), new News(sidecar, sessions, log, own));
};
