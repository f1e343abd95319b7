/** Installing the server into the private environment, after asking. */

import * as vscode from "vscode";
import { usablePython } from "../../core/server/locate.js";
import type { ManagedEnvironment } from "./managed.js";
import { environment } from "../../core/server/environment.js";
import { readSettings } from "../../shared/settings.js";
import type { Handlers, Workbench } from "../../core/commands/register.js";
import { requireTrust } from "../../core/commands/targets.js";
import { confirm } from "../../core/restore/timeTravel.js";

export function installCommand(bench: Workbench, managed: ManagedEnvironment): Handlers {
  return { installServer: () => install(bench, managed) };
}

async function install(bench: Workbench, managed: ManagedEnvironment): Promise<void> {
  requireTrust();
  const python = await usablePython(environment(() => managed.python), readSettings().interpreter);
  const agreed = await confirm(
    vscode.l10n.t("Install the Timeleap server?"),
    vscode.l10n.t("An environment of this extension's own is made with {0}. The server comes with the extension; the packages it needs are downloaded by pip. No other environment is changed.", python),
    vscode.l10n.t("Install"),
  );
  if (!agreed) {
    return;
  }
  await vscode.window.withProgress({ location: vscode.ProgressLocation.Notification, title: vscode.l10n.t("Installing the Timeleap server") }, (progress) =>
    managed.install(python, (message) => progress.report({ message })),
  );
  await bench.sidecar.restart();
}
