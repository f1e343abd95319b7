/** The row of a note to an earlier self that waits for its delivery. */

import * as vscode from "vscode";
import type { PendingDMail } from "timeleap-client";
import type { Session } from "../../core/sessions/session.js";
import { oneLine } from "../../shared/text/format.js";
import { TreeNode, treeItem } from "../../core/tree/node.js";

export class DMailNode extends TreeNode {
  constructor(
    session: Session,
    private readonly dmail: PendingDMail,
    /** What a person calls the checkpoint it is for, if it is loaded. */
    private readonly target: string | undefined,
  ) {
    super(undefined, `${session.id}/dmail`);
  }

  item(): vscode.TreeItem {
    const { message, checkpointId, fromSessionId } = this.dmail;
    const target = this.target ?? `#${checkpointId}`;
    const from = fromSessionId === undefined ? [] : [vscode.l10n.t("from {0}", fromSessionId)];
    const description = [vscode.l10n.t("D-Mail for “{0}”, not delivered yet", target), ...from].join(" · ");
    return treeItem(this.id, {
      label: oneLine(message, 50),
      description,
      icon: "mail",
      tooltip: `${description}\n\n${message.slice(0, 1_000)}`,
      spoken: `${description}: ${oneLine(message)}`,
      context: "dmail",
      command: { command: "timeleap.deliverDMail", title: "" },
    });
  }
}
