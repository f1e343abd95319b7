/** The view of the shown session's live log. */

import type { PendingDMail } from "timeleap-client";
import type { Approvals } from "../sessions/approvals.js";
import type { Session } from "../sessions/session.js";
import type { Sessions } from "../sessions/sessions.js";
import { ApprovalNode } from "./approvalNode.js";
import { checkpointName } from "../text/happened.js";
import { checkpointRows, newSetting } from "./checkpointNodes.js";
import { DMailNode } from "./dmailNode.js";
import type { TreeNode } from "./node.js";
import { NodeTree } from "./tree.js";

export class CheckpointsTree extends NodeTree {
  private readonly setting = newSetting(() => this.refresh());

  constructor(
    private readonly sessions: Sessions,
    /** Whether there is a server; resolves when the session to show, if any, is open. */
    private readonly ready: () => Promise<boolean>,
    private readonly approvals?: Pick<Approvals, "pending">,
  ) {
    super();
  }

  protected async roots(): Promise<TreeNode[]> {
    const session = (await this.ready()) ? this.sessions.shown : undefined;
    if (!session) {
      return [];
    }
    const rows = await checkpointRows(undefined, session, session.log, this.setting);
    const { pendingDMail } = session.state;
    const asked = (this.approvals?.pending(session) ?? []).map((pending) => new ApprovalNode(pending));
    return [...asked, ...(pendingDMail ? [await this.dmail(session, pendingDMail)] : []), ...rows];
  }

  private async dmail(session: Session, dmail: PendingDMail): Promise<DMailNode> {
    const target = (await session.log.spans()).find(({ checkpoint }) => checkpoint.uid === dmail.checkpointUid);
    return new DMailNode(session, dmail, target && checkpointName(target.checkpoint));
  }
}
