/** An agent's hooks, put in and taken out by `timeleap agents`, which is run as the server is. */

import * as vscode from "vscode";
import type { Core } from "../../core/core.js";
import { Refusal } from "../../core/commands/report.js";
import { run } from "../../shared/programs.js";
import type { Agent } from "./programs.js";

const TIMEOUT = 60_000;

export interface HooksChange {
  /** The settings of the agent. */
  readonly path: string;
  readonly changed: boolean;
  /** What changes in them, line by line. */
  readonly diff: string;
}

/**
 * Puts hooks into the agent's settings, or takes them out again, byte for byte.
 *
 * @param confirmed False: only says what would change.
 * @throws Refusal with the reason, such as settings that cannot be changed without losing comments
 */
export async function changeHooks({ launching }: Core, what: "install" | "uninstall", { kind }: Agent, confirmed: boolean): Promise<HooksChange> {
  const settings = launching.settings();
  const { command, args } = await launching.locate(settings);
  const serve = args.lastIndexOf("serve");
  if (serve === -1) {
    throw new Refusal(vscode.l10n.t("The setting {0} starts the server in a way of its own, so the command for hooks is not known.", "timeleap.server.command"));
  }
  const home = settings.home === "" ? [] : ["--home", settings.home];
  const ran = await run(command, [...args.slice(0, serve), "agents", what, kind, confirmed ? "--yes" : "--dry-run", "--json", ...home], TIMEOUT);
  if (ran.code !== 0) {
    throw new Refusal(ran.stderr.trim().split("\n").at(-1) ?? "");
  }
  return JSON.parse(ran.stdout) as HooksChange;
}
