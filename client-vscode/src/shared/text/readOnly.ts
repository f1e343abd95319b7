/** Why a session can only be looked at. */

import * as vscode from "vscode";
import { sentences } from "./detail.js";
import type { StorageTrouble } from "./storageTrouble.js";

/** What a session knows of it. */
export interface Looked {
  /** The program whose conversation it is a copy of. */
  readonly mirrorOf: string | undefined;
  readonly restricted: boolean;
  /** Its owner does not answer. */
  readonly followed: boolean;
  readonly obstacle: StorageTrouble | undefined;
}

/** With what to do. */
export function whyReadOnly({ mirrorOf, restricted, followed, obstacle }: Looked): string {
  if (mirrorOf !== undefined) {
    return vscode.l10n.t("A read-only copy of a {0} conversation. It grows as {0} works. Continue there from any checkpoint, or fork it to go on here.", mirrorOf);
  }
  if (restricted) {
    return vscode.l10n.t("In Restricted Mode sessions can be looked at, not changed.");
  }
  if (followed) {
    return vscode.l10n.t("The program that writes this session does not answer, so it can only be looked at here. “Refresh” tries again.");
  }
  return obstacle
    ? sentences(obstacle.what, vscode.l10n.t("This session can only be looked at here."), obstacle.next)
    : vscode.l10n.t("This session can only be looked at here.");
}
