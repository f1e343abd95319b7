/** The view of the shown session's live log. */

import type { Sessions } from "../sessions/sessions.js";
import { checkpointRows, type Setting } from "./checkpointNodes.js";
import type { TreeNode } from "./node.js";
import { NodeTree } from "./tree.js";

export class CheckpointsTree extends NodeTree {
  private readonly setting: Setting = { shown: new Map(), refresh: () => this.refresh() };

  constructor(
    private readonly sessions: Sessions,
    /** Whether there is a server; resolves when the session to show, if any, is open. */
    private readonly ready: () => Promise<boolean>,
  ) {
    super();
  }

  protected async roots(): Promise<TreeNode[]> {
    const session = (await this.ready()) ? this.sessions.shown : undefined;
    return session ? checkpointRows(undefined, session, session.log, this.setting) : [];
  }
}
