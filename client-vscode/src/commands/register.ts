/** Commands, and what is said when one fails. */

import * as vscode from "vscode";
import type { Sidecar } from "../server/sidecar.js";
import type { Approvals } from "../sessions/approvals.js";
import type { Prompts } from "../sessions/prompts.js";
import type { Sessions } from "../sessions/sessions.js";
import type { Documents } from "../documents/documents.js";
import type { Views } from "../views/views.js";
import { Refusal, report } from "./report.js";

/** What commands work with. */
export interface Workbench {
  readonly sidecar: Sidecar;
  readonly sessions: Sessions;
  readonly views: Views;
  readonly documents: Documents;
  readonly approvals: Approvals;
  readonly prompts: Prompts;
  readonly log: vscode.LogOutputChannel;
}

/** A command's function; its first argument is the row it was called on, if any. */
export type Handler = (node?: unknown) => Promise<unknown>;
export type Handlers = Readonly<Record<string, Handler>>;

/** Registers `timeleap.<name>` for each handler; what a handler throws is reported, not lost. */
export function registerCommands(bench: Workbench, handlers: Handlers): vscode.Disposable[] {
  return Object.entries(handlers).map(([name, handler]) =>
    vscode.commands.registerCommand(`timeleap.${name}`, async (...given: unknown[]) => {
      try {
        return await handler(rowOf(given));
      } catch (error) {
        await report(error, bench);
        return undefined;
      }
    }),
  );
}

/**
 * The row a command was called on; undefined: on none.
 *
 * A row's menu passes the row and what is selected besides. The editor passes nothing for a row that was taken away while its menu
 * was open; then the command must not fall back to the selected row, which is another one.
 */
function rowOf(given: readonly unknown[]): unknown {
  const [row] = given;
  if (given.length > 1 && (row === undefined || row === null)) {
    throw new Refusal(vscode.l10n.t("What this was about is no longer there, so nothing was done. The view is up to date now."));
  }
  return row;
}
