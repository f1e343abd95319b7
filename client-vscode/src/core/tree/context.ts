/** What the manifest's `when` clauses know. */

import * as vscode from "vscode";
import type { Sessions } from "../sessions/sessions.js";
import type { SidecarState } from "../server/sidecar.js";

/** The keys of the core with their values; the names are used in its manifest. */
export function contextKeys(server: SidecarState, sessions: Sessions, trusted: boolean): Record<string, unknown> {
  const state = sessions.shown?.state;
  return {
    "timeleap.ready": server.kind === "ready" || server.kind === "restarting",
    "timeleap.problem": server.kind === "failed" ? server.failure.kind : "",
    "timeleap.session": state !== undefined,
    // From the state, not from what is loaded: a view must not say "empty" while its first page is on the way.
    "timeleap.empty": state !== undefined && state.context.messageCount + state.context.nCheckpoints === 0,
    "timeleap.canUndo": (state?.context.canUndo ?? 0) > 0,
    "timeleap.canRedo": (state?.context.canRedo ?? 0) > 0,
    "timeleap.sessionProblem": sessions.problem?.kind ?? "",
    "timeleap.writable": state !== undefined && state.access !== "readOnly" && trusted,
    "timeleap.mirror": state?.source?.path === undefined ? "" : state.source.kind,
  };
}

export class ContextKeys {
  private readonly known = new Map<string, unknown>();

  /** Tells the editor what has changed. */
  update(keys: Record<string, unknown>): void {
    for (const [key, value] of Object.entries(keys)) {
      if (this.known.get(key) !== value) {
        this.known.set(key, value);
        void vscode.commands.executeCommand("setContext", key, value);
      }
    }
  }
}
