/** The status bar: what the agent may do without asking, and what waits. */

import * as vscode from "vscode";
import type { SessionState } from "timeleap-client";
import type { Session } from "../../core/sessions/session.js";
import { SessionItem } from "../../kit/sessionItem.js";
import type { Sessions } from "../../core/sessions/sessions.js";
import { exact, listed } from "../../shared/text/format.js";
import type { Approvals } from "./approvals.js";

export class ApprovalItem extends SessionItem {
  constructor(
    sessions: Sessions,
    private readonly approvals: Pick<Approvals, "pending" | "onDidChange">,
  ) {
    super(sessions, vscode.window.createStatusBarItem("timeleap.approvals", vscode.StatusBarAlignment.Left, 1_000));
    this.item.name = `Timeleap: ${vscode.l10n.t("Approvals")}`;
    this.register(approvals.onDidChange(() => sessions.shown && this.show(sessions.shown)));
  }

  protected show(session: Session): void {
    const waiting = this.approvals.pending().length;
    const { text, alarm, tooltip, spoken } = approvalsShown(session.state.approval, waiting);
    if (text === "") {
      this.item.hide();
      return;
    }
    this.item.text = text;
    const about = waiting > 0 ? { arguments: ["waiting"] } : {};
    this.item.command = { command: "timeleap.manageApprovals", title: vscode.l10n.t("Approvals"), ...about };
    this.item.backgroundColor = alarm === "" ? undefined : new vscode.ThemeColor(`statusBarItem.${alarm}Background`);
    this.item.tooltip = tooltip;
    this.item.accessibilityInformation = { label: spoken };
    this.item.show();
  }
}

interface ApprovalsShown {
  /** Empty: there is nothing to say. */
  readonly text: string;
  readonly alarm: "" | "warning" | "error";
  readonly tooltip: string;
  readonly spoken: string;
}

/** What runs unasked cannot be overlooked, then what waits, then that nobody is there. */
export function approvalsShown({ yolo, afk, autoApproveActions }: SessionState["approval"], waiting: number): ApprovalsShown {
  const waits = vscode.l10n.t("Waiting for your decision: {0}", exact(waiting));
  if (yolo) {
    const label = vscode.l10n.t("YOLO: everything is approved");
    const text = waiting === 0 ? label : listed([label, waits]);
    return { text: `$(warning) ${text}`, alarm: "error", tooltip: text, spoken: text };
  }
  if (waiting > 0) {
    return { text: `$(question) ${waits}`, alarm: "warning", tooltip: waits, spoken: waits };
  }
  if (afk) {
    const label = vscode.l10n.t("Away: requests are rejected");
    return { text: `$(sign-out) ${label}`, alarm: "warning", tooltip: label, spoken: label };
  }
  if (autoApproveActions.length === 0) {
    return { text: "", alarm: "", tooltip: "", spoken: "" };
  }
  const label = vscode.l10n.t("Without asking: {0}", exact(autoApproveActions.length));
  return { text: `$(shield) ${label}`, alarm: "", tooltip: vscode.l10n.t("Without asking: {0}", autoApproveActions.join(", ")), spoken: label };
}
