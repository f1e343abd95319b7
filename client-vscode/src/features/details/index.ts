/** What rows of checkpoints show beside their names: badges, tooltips, and the files that changed. */

import * as vscode from "vscode";
import type { Feature } from "../../core/core.js";
import { registerBadges } from "./badges.js";
import { detailsOfRows } from "./details.js";

/** Ages on rows ("3 min. ago") are drawn again this often; milliseconds. Nothing is asked for. */
const REDRAW = 60_000;

export const details: Feature = ({ views, sessions }) => {
  views.added.parts.push(detailsOfRows);
  const redraw = setInterval(() => sessions.shown && views.redraw(), REDRAW);
  return vscode.Disposable.from(new vscode.Disposable(() => clearInterval(redraw)), registerBadges());
};
