/** The status bar: how full the context window is. */

import * as vscode from "vscode";
import type { SessionState } from "timeleap-client";
import { staleInWords, type Staleness } from "../../kit/staleness.js";
import type { Session } from "../../core/sessions/session.js";
import { SessionItem } from "../../kit/sessionItem.js";
import type { Sessions } from "../../core/sessions/sessions.js";
import { checkpoints, exact, exactTokens, messages, short, tokensUsed } from "../../shared/text/format.js";
import { titleOf } from "../../shared/text/titles.js";
import { headed } from "../../shared/text/detail.js";

/** Of the window, from where on it is shown as full. */
const NEARLY_FULL = 0.95;
/** From where on it is shown at all. */
const WORTH_SAYING = 0.5;

export class TokenItem extends SessionItem {
  constructor(
    sessions: Sessions,
    private readonly staleness: Pick<Staleness, "present" | "onDidChange">,
  ) {
    super(sessions, vscode.window.createStatusBarItem("timeleap.tokens", vscode.StatusBarAlignment.Right, 90));
    this.item.name = `Timeleap: ${vscode.l10n.t("Tokens")}`;
    this.item.command = "timeleap.compact";
    this.register(staleness.onDidChange(() => sessions.shown && this.show(sessions.shown)));
  }

  protected show(session: Session): void {
    const { text, level, quiet, spoken } = tokensShown(session.state);
    this.item.text = text;
    this.item.backgroundColor = level === "" ? undefined : new vscode.ThemeColor(`statusBarItem.${level}Background`);
    const stale = this.staleness.present ? [staleInWords()] : [];
    this.item.tooltip = tokensTooltip(session.state, stale);
    this.item.accessibilityInformation = { label: [spoken, ...stale].join(". ") };
    if (quiet && stale.length === 0) {
      this.item.hide();
    } else {
      this.item.show();
    }
  }
}

/** What the item says, and how alarming that is. */
export function tokensShown({ context, budget }: Pick<SessionState, "context" | "budget">): {
  readonly text: string;
  readonly level: "" | "warning" | "error";
  /** There is nothing to say yet. */
  readonly quiet: boolean;
  readonly spoken: string;
} {
  const used = tokensUsed(context);
  const size = budget.maxContextSize;
  if (size === null) {
    return { text: `$(dashboard) ${short(used)}`, level: "", quiet: true, spoken: exactTokens(used) };
  }
  const share = Math.round((used / size) * 100);
  const level = used >= size * NEARLY_FULL ? "error" : context.shouldCompact ? "warning" : "";
  return {
    text: `$(dashboard) ${short(used)} / ${short(size)} (${share}%)`,
    level,
    quiet: level === "" && used < size * WORTH_SAYING,
    spoken: usedOf(used, size),
  };
}

function tokensTooltip({ context, budget, title, sessionId, pins = [] }: SessionState, more: readonly string[]): vscode.MarkdownString {
  const size = budget.maxContextSize;
  const used = tokensUsed(context);
  const counts = [messages(context.messageCount), checkpoints(context.checkpoints.length + context.checkpointsOmitted)];
  const held = pins.length === 0 ? [] : [headed(vscode.l10n.t("Pinned texts"), exact(pins.length))];
  const text = new vscode.MarkdownString();
  text.appendText(title ?? sessionId);
  return text.appendMarkdown(["", size === null ? exactTokens(used) : usedOf(used, size), [...counts, ...held].join(" · "), ...more, titleOf("compact")].join("\n\n"));
}

/** "12,345 / 200,000 tokens (6%)" */
function usedOf(used: number, size: number): string {
  return `${exact(used)} / ${exactTokens(size)} (${exact(Math.round((used / size) * 100))}%)`;
}
