/** The status bar: how full the context is, and what the agent may do without asking. */

import * as vscode from "vscode";
import type { SessionState } from "timeleap-client";
import { Disposables } from "../lifecycle.js";
import type { Session } from "../sessions/session.js";
import type { Sessions } from "../sessions/sessions.js";
import { exact, short } from "../text/format.js";

/** Of the window, from where on it is shown as full. */
const NEARLY_FULL = 0.95;

export class StatusBar extends Disposables {
  private readonly tokens = this.register(vscode.window.createStatusBarItem("timeleap.tokens", vscode.StatusBarAlignment.Right, 90));
  private readonly approvals = this.register(vscode.window.createStatusBarItem("timeleap.approvals", vscode.StatusBarAlignment.Left, 1_000));
  private following: vscode.Disposable | undefined;

  constructor(sessions: Sessions) {
    super();
    this.tokens.name = vscode.l10n.t("Timeleap: Tokens");
    this.tokens.command = "timeleap.compact";
    this.approvals.name = vscode.l10n.t("Timeleap: Approvals");
    this.approvals.command = "timeleap.manageApprovals";
    this.register(sessions.onDidChangeShown((session) => this.follow(session)));
  }

  override dispose(): void {
    this.following?.dispose();
    super.dispose();
  }

  private follow(session: Session | undefined): void {
    this.following?.dispose();
    this.following = session?.onDidChange(() => this.show(session));
    if (session) {
      this.show(session);
    } else {
      this.tokens.hide();
      this.approvals.hide();
    }
  }

  private show(session: Session): void {
    const { text, level, spoken } = tokensShown(session.state);
    this.tokens.text = text;
    this.tokens.backgroundColor = level === "" ? undefined : new vscode.ThemeColor(`statusBarItem.${level}Background`);
    this.tokens.tooltip = tokensTooltip(session.state);
    this.tokens.accessibilityInformation = { label: spoken };
    this.tokens.show();
    this.showApprovals(session.state);
  }

  private showApprovals({ approval }: SessionState): void {
    const { yolo, autoApproveActions } = approval;
    const label = yolo ? vscode.l10n.t("YOLO: everything is approved") : vscode.l10n.t("Approvals: {0}", autoApproveActions.length);
    this.approvals.text = yolo ? `$(warning) ${label}` : `$(shield) ${label}`;
    this.approvals.backgroundColor = yolo ? new vscode.ThemeColor("statusBarItem.errorBackground") : undefined;
    this.approvals.tooltip = yolo
      ? vscode.l10n.t("The agent runs everything without asking. Choose to turn it off.")
      : autoApproveActions.length === 0
        ? vscode.l10n.t("The agent asks before it acts.")
        : vscode.l10n.t("Without asking: {0}", autoApproveActions.join(", "));
    this.approvals.accessibilityInformation = { label: yolo ? label : vscode.l10n.t("{0} actions approved without asking", autoApproveActions.length) };
    this.approvals.show();
  }
}

/** What the item says, and how alarming that is. */
export function tokensShown({ context, budget }: Pick<SessionState, "context" | "budget">): {
  readonly text: string;
  readonly level: "" | "warning" | "error";
  readonly spoken: string;
} {
  const used = context.tokenCountWithPending;
  const size = budget.maxContextSize;
  if (size === null) {
    return { text: `$(dashboard) ${short(used)}`, level: "", spoken: vscode.l10n.t("{0} tokens used", exact(used)) };
  }
  const share = Math.round((used / size) * 100);
  return {
    text: `$(dashboard) ${short(used)} / ${short(size)} (${share}%)`,
    level: used >= size * NEARLY_FULL ? "error" : context.shouldCompact ? "warning" : "",
    spoken: vscode.l10n.t("{0} of {1} tokens used, {2} percent", exact(used), exact(size), share),
  };
}

function tokensTooltip({ context, budget, title, sessionId, pins = [] }: SessionState): vscode.MarkdownString {
  const size = budget.maxContextSize;
  const rows: [string, string][] = [
    [vscode.l10n.t("Reported by the model"), exact(context.tokenCount)],
    [vscode.l10n.t("Estimated since"), exact(context.tokenCountWithPending - context.tokenCount)],
    [vscode.l10n.t("Window"), size === null ? vscode.l10n.t("not set") : exact(size)],
    [vscode.l10n.t("Compaction is due from"), size === null ? "–" : exact(Math.floor(size * budget.triggerRatio))],
    [vscode.l10n.t("Messages"), exact(context.messageCount)],
    [vscode.l10n.t("Checkpoints"), exact(context.checkpoints.length + context.checkpointsOmitted)],
    [vscode.l10n.t("Timelines"), exact(context.timelines)],
    ...(pins.length === 0 ? [] : [[vscode.l10n.t("Pinned texts"), exact(pins.length)] satisfies [string, string]]),
  ];
  const text = new vscode.MarkdownString();
  text.appendText(title ?? sessionId);
  const table = ["| | |", "|---|--:|", ...rows.map(([name, value]) => `| ${name} | ${value} |`)].join("\n");
  return text.appendMarkdown(`\n\n${table}\n\n${vscode.l10n.t("Choose to compact the conversation.")}`);
}
