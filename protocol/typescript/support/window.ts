/** A person with a window on the sessions of agents: looks at them, goes back, undoes that. */

import assert from "node:assert/strict";
import type { TimeleapClient } from "../src/index.js";

export class Window {
  constructor(readonly client: TimeleapClient) {}

  async sessions(): Promise<string[]> {
    const { sessions } = await this.client.request("session/list", { source: { kind: "claude-code" } });
    return sessions.map((session) => session.sessionId);
  }

  /** The only session, open. */
  async only(): Promise<string> {
    const [sessionId = "", ...others] = await this.sessions();
    assert.deepEqual(others, []);
    await this.client.request("session/open", { sessionId, create: false });
    return sessionId;
  }

  async labels(sessionId: string): Promise<(string | null | undefined)[]> {
    const { checkpoints } = await this.client.request("context/listCheckpoints", { sessionId, order: "asc" });
    return checkpoints.map((checkpoint) => checkpoint.label);
  }

  /** Goes back to before what a checkpoint is called after. */
  async revert(sessionId: string, label: string): Promise<void> {
    const { checkpoints } = await this.client.request("context/listCheckpoints", { sessionId });
    const { uid } = checkpoints.find((checkpoint) => checkpoint.label === label)!;
    await this.client.request("context/revertTo", { sessionId, checkpointUid: uid });
  }
}
