/** Asks about what agents want to do: one notification at a time, oldest first. The rows, the badge and the status bar have them all. */

import * as vscode from "vscode";
import { Disposables } from "../../shared/lifecycle.js";
import type { Asking, PendingApproval, Resolved } from "./approvals.js";
import { gistOfApproval, isShownWhole, visible } from "../../shared/text/approval.js";
import { sayWarning } from "../../shared/text/say.js";
import { decide, reject, respond, showDetail } from "./approvalCommands.js";
import { report } from "../../core/commands/report.js";

/** Milliseconds for which it is said that somebody else has decided. */
const SAID = 8_000;

interface Answer {
  readonly title: string;
  readonly run: () => Promise<void>;
}

export class ApprovalQuestions extends Disposables {
  /** Those that have been asked about, by id. */
  private readonly asked = new Set<string>();
  private current: PendingApproval | undefined;

  constructor(private readonly bench: Asking) {
    super();
    this.register(bench.approvals.onDidResolve((resolved) => this.settled(resolved)));
    this.register(bench.approvals.onDidChange(() => this.next()));
  }

  private next(): void {
    if (this.disposed || this.current) {
      return;
    }
    const pending = this.bench.approvals.pending().find(({ request }) => !this.asked.has(request.approvalId));
    if (pending) {
      this.current = pending;
      this.asked.add(pending.request.approvalId);
      void this.ask(pending);
    }
  }

  private async ask(pending: PendingApproval): Promise<void> {
    const { session, request } = pending;
    const gist = gistOfApproval(request);
    const message = vscode.l10n.t("“{0}” asks for your approval: {1}", visible(session.name, 60), [visible(request.action, 80), gist].filter(Boolean).join(" – "));
    const answers = this.answers(pending);
    try {
      const chosen = await sayWarning(message, ...answers.map(({ title }) => title));
      await answers.find(({ title }) => title === chosen)?.run();
    } catch (error) {
      await report(error, this.bench);
    } finally {
      if (this.current === pending) {
        this.current = undefined;
        this.next();
      }
    }
  }

  /** Nothing is approved with one press of which not all was shown. */
  private answers(pending: PendingApproval): Answer[] {
    const { bench } = this;
    const rejecting = { title: vscode.l10n.t("Reject…"), run: () => reject(bench, pending) };
    if (!isShownWhole(pending.request)) {
      const look = async (): Promise<void> => {
        await showDetail(pending);
        await decide(bench, pending);
      };
      return [{ title: vscode.l10n.t("Show All and Decide…"), run: look }, rejecting];
    }
    return [
      { title: vscode.l10n.t("Approve"), run: () => respond(bench, pending, "approve") },
      { title: vscode.l10n.t("Approve for This Session"), run: () => respond(bench, pending, "approveForSession") },
      rejecting,
    ];
  }

  /** The editor keeps a notification until it is closed; that it is settled is said, and what waits next is asked. */
  private settled({ approvalId, decision, cause }: Resolved): void {
    this.asked.delete(approvalId);
    if (this.current?.request.approvalId !== approvalId) {
      return;
    }
    const { action } = this.current.request;
    this.current = undefined;
    if (cause.client !== undefined || decision === "timedOut" || decision === "cancelled") {
      vscode.window.setStatusBarMessage(vscode.l10n.t("No longer asked for: {0}", visible(action, 60).replaceAll("$(", "$ (")), SAID);
    }
  }
}
