/** The status bar: how full the context is, and what the agent may do without asking. */

import * as vscode from "vscode";
import type { SessionState } from "timeleap-client";
import { Disposables } from "../../shared/lifecycle.js";
import type { Approvals } from "../approvals/approvals.js";
import { staleInWords, type Staleness } from "../../core/server/staleness.js";
import type { Session } from "../../core/sessions/session.js";
import type { Sessions } from "../../core/sessions/sessions.js";
import { exact, exactTokens, listed, short, tokensUsed } from "../../shared/text/format.js";

/** Of the window, from where on it is shown as full. */
const NEARLY_FULL = 0.95;

export class StatusBar extends Disposables {
  private readonly tokens = this.register(vscode.window.createStatusBarItem("timeleap.tokens", vscode.StatusBarAlignment.Right, 90));
  private readonly approvals = this.register(vscode.window.createStatusBarItem("timeleap.approvals", vscode.StatusBarAlignment.Left, 1_000));

  constructor(
    sessions: Sessions,
    private readonly pending: Pick<Approvals, "pending" | "onDidChange">,
    private readonly staleness: Pick<Staleness, "present" | "onDidChange">,
  ) {
    super();
    this.tokens.name = vscode.l10n.t("Timeleap: Tokens");
    this.tokens.command = "timeleap.compact";
    this.approvals.name = vscode.l10n.t("Timeleap: Approvals");
    this.approvals.command = "timeleap.manageApprovals";
    this.register(sessions.followShown((session) => this.follow(session)));
    for (const { onDidChange } of [pending, staleness]) {
      this.register(onDidChange(() => sessions.shown && this.show(sessions.shown)));
    }
  }

  private follow(session: Session | undefined): vscode.Disposable | undefined {
    if (session) {
      this.show(session);
    } else {
      this.tokens.hide();
      this.approvals.hide();
    }
    return session?.onDidChange(() => this.show(session));
  }

  private show(session: Session): void {
    const { text, level, spoken } = tokensShown(session.state);
    this.tokens.text = text;
    this.tokens.backgroundColor = level === "" ? undefined : new vscode.ThemeColor(`statusBarItem.${level}Background`);
    const stale = this.staleness.present ? [staleInWords()] : [];
    this.tokens.tooltip = tokensTooltip(session.state, stale);
    this.tokens.accessibilityInformation = { label: [spoken, ...stale].join(". ") };
    this.tokens.show();
    this.showApprovals(session.state);
  }

  private showApprovals({ approval }: SessionState): void {
    const { text, alarm, tooltip, spoken } = approvalsShown(approval, this.pending.pending().length);
    if (text === "") {
      this.approvals.hide();
      return;
    }
    this.approvals.text = text;
    this.approvals.command = this.pending.pending().length > 0 ? "timeleap.decideApproval" : "timeleap.manageApprovals";
    this.approvals.backgroundColor = alarm === "" ? undefined : new vscode.ThemeColor(`statusBarItem.${alarm}Background`);
    this.approvals.tooltip = tooltip;
    this.approvals.accessibilityInformation = { label: spoken };
    this.approvals.show();
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
    return { text: `$(warning) ${text}`, alarm: "error", tooltip: vscode.l10n.t("The agent runs everything without asking. Choose to turn it off."), spoken: text };
  }
  if (waiting > 0) {
    return { text: `$(question) ${waits}`, alarm: "warning", tooltip: vscode.l10n.t("An agent asks whether it may do something. Choose to decide."), spoken: waits };
  }
  if (afk) {
    const label = vscode.l10n.t("Away: requests are rejected");
    return { text: `$(sign-out) ${label}`, alarm: "warning", tooltip: vscode.l10n.t("What an agent asks for is rejected at once. Choose to change that."), spoken: label };
  }
  if (autoApproveActions.length === 0) {
    return { text: "", alarm: "", tooltip: "", spoken: "" };
  }
  const label = autoApproveActions.length === 1 ? vscode.l10n.t("1 action runs without asking") : vscode.l10n.t("{0} actions run without asking", exact(autoApproveActions.length));
  return { text: `$(shield) ${label}`, alarm: "", tooltip: vscode.l10n.t("Without asking: {0}", autoApproveActions.join(", ")), spoken: label };
}

/** What the item says, and how alarming that is. */
export function tokensShown({ context, budget }: Pick<SessionState, "context" | "budget">): {
  readonly text: string;
  readonly level: "" | "warning" | "error";
  readonly spoken: string;
} {
  const used = tokensUsed(context);
  const size = budget.maxContextSize;
  if (size === null) {
    return { text: `$(dashboard) ${short(used)}`, level: "", spoken: vscode.l10n.t("{0} used", exactTokens(used)) };
  }
  const share = Math.round((used / size) * 100);
  return {
    text: `$(dashboard) ${short(used)} / ${short(size)} (${share}%)`,
    level: used >= size * NEARLY_FULL ? "error" : context.shouldCompact ? "warning" : "",
    spoken: vscode.l10n.t("{0} of {1} used, {2} percent", exact(used), exactTokens(size), share),
  };
}

function tokensTooltip({ context, budget, title, sessionId, pins = [] }: SessionState, more: readonly string[]): vscode.MarkdownString {
  const size = budget.maxContextSize;
  const rows: [string, string][] = [
    [vscode.l10n.t("Reported by the model"), exact(context.tokenCount)],
    [vscode.l10n.t("Estimated since"), exact(tokensUsed(context) - context.tokenCount)],
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
  return text.appendMarkdown(["", table, ...more, vscode.l10n.t("Choose to compact the conversation.")].join("\n\n"));
}
