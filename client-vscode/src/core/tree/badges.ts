/** Badges at the right of rows, which the editor never cuts: what failed, and how many files changed. */

import * as vscode from "vscode";
import { files, listed } from "../../shared/text/format.js";
import { failures } from "../../shared/text/happened.js";

const SCHEME = "timeleap-row";
/** What the badge of the editor has room for. */
const MOST = 9;

export interface Badge {
  readonly failed: number;
  readonly changed: number;
}

/** Where the editor learns the badge of a row; undefined: it has none. */
export function badgeUri(id: string, { failed, changed }: Badge): vscode.Uri | undefined {
  return failed + changed === 0 ? undefined : vscode.Uri.from({ scheme: SCHEME, path: `/${encodeURIComponent(id)}`, query: `${String(failed)},${String(changed)}` });
}

/** `✗` for a failure, then how many files changed. */
export function badgeOf({ scheme, query }: vscode.Uri): vscode.FileDecoration | undefined {
  if (scheme !== SCHEME) {
    return undefined;
  }
  const [failed = 0, changed = 0] = query.split(",").map(Number);
  const count = changed === 0 ? "" : changed > MOST ? "+" : String(changed);
  const tooltip = listed([failures(failed), changed === 0 ? "" : vscode.l10n.t("{0} changed", files(changed))]);
  return new vscode.FileDecoration(`${failed > 0 ? "✗" : ""}${count}`, tooltip);
}

export function registerBadges(): vscode.Disposable {
  return vscode.window.registerFileDecorationProvider({ provideFileDecoration: badgeOf });
}
