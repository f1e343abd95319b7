/** Installing the server into the private environment, after asking: by itself, or as a part of what wants a server. */

import * as vscode from "vscode";
import type { Core } from "../../core/core.js";
import { requireTrust } from "../../core/commands/targets.js";
import { confirm } from "../../core/restore/changes.js";
import { environment } from "./environment.js";
import { ServerFailure } from "../../core/server/failure.js";
import { usablePython } from "./locate.js";
import type { ManagedEnvironment } from "./managed.js";
import { inShort } from "../../shared/text/paths.js";

export class Installation {
  constructor(
    private readonly core: Core,
    private readonly managed: ManagedEnvironment,
  ) {}

  /** The Python that the server would be installed with; undefined: there is a server. @throws ServerFailure which an installation cannot help */
  async needed(): Promise<string | undefined> {
    try {
      await this.core.sidecar.started();
      return undefined;
    } catch (error) {
      if (error instanceof ServerFailure && error.kind === "noServer") {
        return this.python();
      }
      throw error;
    }
  }

  /** What would be done, for a question. */
  inWords(python: string): string {
    return vscode.l10n.t("The Timeleap server is installed into an environment of this extension's own, made with {0}. It comes with the extension; the packages it needs are downloaded by pip. No other environment is changed.", inShort(python));
  }

  async carryOut(python: string): Promise<void> {
    await vscode.window.withProgress({ location: vscode.ProgressLocation.Notification, title: vscode.l10n.t("Install the Timeleap Server") }, () => this.managed.install(python),
    );
    await this.core.sidecar.restart();
  }

  /** The command: also where there is a server, which is then replaced by this one. */
  async ask(): Promise<boolean> {
    requireTrust();
    const python = await this.python();
    const install = vscode.l10n.t("Install the Timeleap Server");
    if (!(await confirm(install, this.inWords(python), install))) {
      return false;
    }
    await this.carryOut(python);
    return true;
  }

  private python(): Promise<string> {
    const { core, managed } = this;
    return usablePython(environment(() => managed.python), core.launching.settings().interpreter);
  }
}
