/** Commands, and what is said when one fails. */

import * as vscode from "vscode";
import type { Core } from "../core.js";
import { Refusal, report } from "./report.js";

/** What commands work with. */
export type Workbench = Pick<Core, "sidecar" | "sessions" | "views" | "changes" | "log">;

/** A command's function; its first argument is the row it was called on, if any. */
export type Handler = (node?: unknown) => Promise<unknown>;
export type Handlers = Readonly<Record<string, Handler>>;

/**
 * Registers `timeleap.<name>` for each handler; what a handler throws is reported, not lost.
 *
 * @param titleCommands Ids of the commands that the manifest contributes to a view's title.
 */
export function registerCommands(bench: Workbench, handlers: Handlers, titleCommands: ReadonlySet<string>): vscode.Disposable[] {
  return Object.entries(handlers).map(([name, handler]) => {
    const id = `timeleap.${name}`;
    const argument = titleCommands.has(id) ? ofTitle : rowOf;
    return vscode.commands.registerCommand(id, async (...given: unknown[]) => {
      try {
        return await handler(argument(given));
      } catch (error) {
        await report(error, bench);
        return undefined;
      }
    });
  });
}

/** Ids of the commands in the titles of views, as the manifest has them. */
export function titleCommandsOf(manifest: unknown): ReadonlySet<string> {
  const { contributes } = manifest as { contributes?: { menus?: Record<string, readonly { readonly command: string }[]> } };
  return new Set((contributes?.menus?.["view/title"] ?? []).map(({ command }) => command));
}

/**
 * The argument of a command that is about the session, not about a row. A key or another extension may pass one. A button in a title
 * passes two: the row that has the focus, which is none until somebody has touched a row, and the selection.
 */
function ofTitle(given: readonly unknown[]): unknown {
  return given.length > 1 ? undefined : given[0];
}

/**
 * The row a command was called on; undefined: on none.
 *
 * A row's menu passes the row and the selection. The editor passes nothing for a row that was taken away while its menu was open;
 * then the command must not fall back to the selected row, which is another one.
 */
function rowOf(given: readonly unknown[]): unknown {
  const [row] = given;
  if (given.length > 1 && (row === undefined || row === null)) {
    throw new Refusal(vscode.l10n.t("This has changed meanwhile, so nothing was done. The view is up to date now."));
  }
  return row;
}
