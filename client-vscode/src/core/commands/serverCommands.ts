/** The server, and the views as such. */

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

/** Also the way out of a failure: then the server is started again. */
async function refresh({ sidecar, views }: Workbench): Promise<void> {
  if (sidecar.state.kind === "failed") {
    await sidecar.restart();
  }
  await views.refresh();
}
