/** The server, and the views as such. */

import * as vscode from "vscode";
import { MoreNode } from "../tree/node.js";
import type { Handlers, Workbench } from "./register.js";

export function serverCommands(bench: Workbench): Handlers {
  return {
    refresh: () => refresh(bench),
    showMore: async (node) => {
      if (node instanceof MoreNode) {
        await node.show();
      }
    },
    showLogs: () => {
      bench.log.show();
      return Promise.resolve();
    },
    restartServer: () => bench.sidecar.restart(),
  };
}

/** Also the way out of a failure: the server is started again, or the session is opened again. */
async function refresh({ sidecar, sessions, views }: Workbench): Promise<void> {
  const { shown, problem } = sessions;
  if (sidecar.state.kind === "failed") {
    await sidecar.restart();
  } else if (problem ?? shown?.obstacle ?? shown?.followed) {
    await vscode.commands.executeCommand("timeleap.reloadSession");
  }
  await views.refresh();
}
