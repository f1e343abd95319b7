/** Badges at the right of rows, which the editor never cuts: what failed, and how many files changed. */

import * as vscode from "vscode";
import { filesChanged, listed } from "../../shared/text/format.js";
import { failures } from "../../shared/text/happened.js";

const SCHEME = "timeleap-row";
/** What the badge of the editor has room for. */
const MOST = 9;

export interface Badge {
  readonly failed: number;
  /** Files; `some`: in several steps, which may be the same ones. */
  readonly changed: number | "some";
  /** Whether the files were saved there. */
  readonly saved?: boolean;
}

/** Where the editor learns the badge of a row; undefined: it has none. */
export function badgeUri(id: string, { failed, changed, saved = false }: Badge): vscode.Uri | undefined {
  const query = `${String(failed)},${String(changed)},${saved ? "saved" : ""}`;
  return failed === 0 && changed === 0 && !saved ? undefined : vscode.Uri.from({ scheme: SCHEME, path: `/${encodeURIComponent(id)}`, query });
}

/** `✗` for a failure, then how many files changed; where neither is, that the files were saved. */
export function badgeOf({ scheme, query }: vscode.Uri): vscode.FileDecoration | undefined {
  if (scheme !== SCHEME) {
    return undefined;
  }
  const [errors = "", changed = "", saved = ""] = query.split(",");
  const failed = Number(errors);
  const tooltip = listed([failures(failed), changedInWords(changed), saved === "" ? "" : vscode.l10n.t("files saved")]);
  return new vscode.FileDecoration(`${failed > 0 ? "✗" : ""}${countOf(changed)}` || "◦", tooltip);
}

function countOf(changed: string): string {
  if (changed === "some" || Number(changed) > MOST) {
    return "+";
  }
  return changed === "0" ? "" : changed;
}

function changedInWords(changed: string): string {
  if (changed === "some") {
    return vscode.l10n.t("Changed Files");
  }
  return changed === "0" ? "" : filesChanged(Number(changed));
}

export function registerBadges(): vscode.Disposable {
  return vscode.window.registerFileDecorationProvider({ provideFileDecoration: badgeOf });
}
