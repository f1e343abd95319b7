/** The row of what an agent asks for, while nobody has decided. */

import * as vscode from "vscode";
import type { PendingApproval } from "./approvals.js";
import { gistOfApproval, visible } from "../../shared/text/approval.js";
import { relativeTime } from "../../shared/text/format.js";
import { TreeNode, treeItem } from "../../core/tree/node.js";

export class ApprovalNode extends TreeNode {
  constructor(readonly pending: PendingApproval) {
    super(undefined, `${pending.session.id}/approval/${pending.request.approvalId}`);
  }

  item(): vscode.TreeItem {
    const { action, requestedAt, client } = this.pending.request;
    const gist = gistOfApproval(this.pending.request, 80);
    const asked = [relativeTime(requestedAt), ...(client === undefined ? [] : [vscode.l10n.t("from {0}", visible(client, 60))])];
    const description = [gist, ...asked].filter(Boolean).join(" · ");
    return treeItem(this.id, {
      label: vscode.l10n.t("Approval needed: {0}", visible(action, 50)),
      description,
      icon: "question",
      color: "list.warningForeground",
      tooltip: [visible(action, 200), gistOfApproval(this.pending.request, 1_000), asked.join(" · ")].filter(Boolean).join("\n\n"),
      context: "approval",
      command: { command: "timeleap.manageApprovals", title: "", arguments: [this] },
    });
  }
}
