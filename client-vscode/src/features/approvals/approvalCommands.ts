/** What the agent may do without asking: shown, and switched on only by a person who was told what it means. */

import * as vscode from "vscode";
import { withoutIcons } from "../../shared/text/say.js";
import { isTimeleapError } from "../../shared/errors.js";
import type { Asking, PendingApproval } from "./approvals.js";
import type { Session } from "../../core/sessions/session.js";
import { approvalText, gistOfApproval, visible } from "../../shared/text/approval.js";
import { relativeTime } from "../../shared/text/format.js";
import { showSheet } from "../../shared/sheet.js";
import { ApprovalNode } from "./approvalNode.js";
import type { Handlers } from "../../core/commands/register.js";
import { Refusal, thereIsNone } from "../../core/commands/report.js";
import { requireTrust, shownSession, target, writableSession } from "../../core/commands/targets.js";
import { confirm } from "../../core/restore/changes.js";
import { titleOf } from "../../shared/text/titles.js";
import { headed } from "../../shared/text/detail.js";

export function approvalCommands(bench: Asking): Handlers {
  return {
    // On a row, and from the status bar while something waits, it is about that.
    manageApprovals: (node) => (node === undefined ? manage(bench) : decide(bench, pendingOf(bench, node))),
  };
}

/** The question about one request. It goes away when somebody else decides. */
export async function decide(bench: Asking, given: PendingApproval | undefined): Promise<void> {
  const pending = given ?? (await choosePending(bench));
  if (!pending) {
    return;
  }
  const { request, session } = pending;
  const choice = await whilePending(bench, pending, (token) => {
    const gist = gistOfApproval(request);
    return vscode.window.showQuickPick(
      decisions(bench, pending),
      {
        title: vscode.l10n.t("“{0}” asks for your approval: {1}", visible(session.name, 60), visible(request.action, 80)),
        placeHolder: gist === "" ? visible(request.action) : gist,
        ignoreFocusOut: true,
      },
      token,
    );
  });
  await choice?.run();
}

function decisions(bench: Asking, pending: PendingApproval): Choice[] {
  return [
    { label: `$(check) ${vscode.l10n.t("Approve")}`, run: () => respond(bench, pending, "approve") },
    {
      label: `$(check-all) ${vscode.l10n.t("Approve for This Session")}`,
      run: () => respond(bench, pending, "approveForSession"),
    },
    { label: `$(close) ${vscode.l10n.t("Reject…")}`, run: () => reject(bench, pending) },
    {
      label: `$(open-preview) ${vscode.l10n.t("Show All and Decide…")}`,
      run: async () => {
        await showDetail(pending);
        await decide(bench, pending);
      },
    },
  ];
}

async function choosePending(bench: Asking): Promise<PendingApproval | undefined> {
  const all = bench.approvals.pending();
  const [only] = all;
  if (!only) {
    throw thereIsNone(titleOf("manageApprovals"));
  }
  if (all.length === 1) {
    return only;
  }
  const items = all.map((pending) => ({
    label: withoutIcons(visible(pending.request.action, 80)),
    description: withoutIcons([visible(pending.session.name, 40), relativeTime(pending.request.requestedAt)].join(" · ")),
    detail: withoutIcons(gistOfApproval(pending.request, 120)),
    pending,
  }));
  return (await vscode.window.showQuickPick(items, { title: titleOf("manageApprovals"), matchOnDetail: true }))?.pending;
}

export async function respond({ approvals }: Asking, pending: PendingApproval, decision: "approve" | "approveForSession" | "reject", reason = ""): Promise<void> {
  const { session, request } = pending;
  const { approvalId } = request;
  if (decision !== "reject") {
    requireTrust(); // a rejection takes something away, like switching YOLO off
  }
  try {
    await session.request("approval/respond", { approvalId, decision, ...(reason.trim() === "" ? {} : { reason: reason.trim() }) });
    approvals.settle(session.id, { approvalId, decision, cause: {} });
  } catch (error) {
    if (!isTimeleapError(error, "approvalNotPending")) {
      throw error;
    }
    approvals.settle(session.id, { approvalId, decision: "cancelled", cause: {} });
    throw noLongerPending();
  }
}

export async function reject(bench: Asking, pending: PendingApproval): Promise<void> {
  const reason = await whilePending(bench, pending, (token) =>
    vscode.window.showInputBox(
      {
        title: `${vscode.l10n.t("Reject…")} ${visible(pending.request.action, 80)}`,
        prompt: vscode.l10n.t("The reason, for the agent; it may be empty"),
        ignoreFocusOut: true,
      },
      token,
    ),
  );
  if (reason !== undefined) {
    await respond(bench, pending, "reject", reason);
  }
}

/** As it is written: nothing in it is more than text. */
export function showDetail({ session, request }: PendingApproval): Promise<void> {
  return showSheet(session.id, { title: visible(request.action, 80), blocks: [{ kind: "text", text: approvalText(request, session.name) }] });
}

/** Asks something that is no longer of interest once the request is decided elsewhere. */
async function whilePending<T>({ approvals }: Asking, pending: PendingApproval, ask: (token: vscode.CancellationToken) => Thenable<T>): Promise<T | undefined> {
  if (!approvals.isPending(pending)) {
    throw noLongerPending();
  }
  const source = new vscode.CancellationTokenSource();
  const heard = approvals.onDidChange(() => {
    if (!approvals.isPending(pending)) {
      source.cancel();
    }
  });
  try {
    const answer = await ask(source.token);
    if (source.token.isCancellationRequested) {
      throw noLongerPending();
    }
    return answer;
  } finally {
    heard.dispose();
    source.dispose();
  }
}

function noLongerPending(): Refusal {
  return new Refusal(vscode.l10n.t("This request needs no decision any more: it was decided elsewhere, timed out or was withdrawn."));
}

/** What a command was called on: a row, or a request. */
function pendingOf({ views }: Asking, node: unknown): PendingApproval | undefined {
  return target(ApprovalNode, node, views.checkpoints)?.pending;
}

async function setAfk(bench: Asking, afk: boolean): Promise<void> {
  const session = shownSession(bench.sessions);
  await session.request("session/setAfk", { afk }); // the status bar says it
}

async function enableYolo(bench: Asking): Promise<void> {
  const session = writableSession(bench.sessions);
  const agreed = await confirm(
    headed(vscode.l10n.t("Approve Everything (YOLO)"), session.name),
    vscode.l10n.t("The agent of this session will run commands and change files without asking, until you turn this off. The status bar shows it all the time. No file switches this on; a program of yours that speaks the protocol can, unless a sandbox keeps the store, the sockets and the key from it."),
    vscode.l10n.t("Approve Everything (YOLO)"),
  );
  if (agreed) {
    await session.request("session/setYolo", { yolo: true });
  }
}

interface Choice extends vscode.QuickPickItem {
  readonly run: () => Promise<unknown>;
}

async function manage(bench: Asking): Promise<void> {
  const session = shownSession(bench.sessions);
  const choice = await vscode.window.showQuickPick(choices(session, bench), {
    title: headed(vscode.l10n.t("Approvals"), session.name),
  });
  await choice?.run();
}

function choices(session: Session, bench: Asking): Choice[] {
  const { yolo, afk, autoApproveActions } = session.state.approval;
  const waiting = bench.approvals.pending(session).map((pending) => ({
    label: `$(question) ${withoutIcons(vscode.l10n.t("Approval needed: {0}", visible(pending.request.action, 80)))}`,
    description: withoutIcons(gistOfApproval(pending.request, 80)),
    run: () => decide(bench, pending),
  }));
  const presence: Choice[] = yolo // which approves everything, whoever is there
    ? []
    : [
        {
          label: afk ? `$(person) ${vscode.l10n.t("I am back: let requests wait for me")}` : `$(sign-out) ${vscode.l10n.t("Away: requests are rejected")}`,
          run: () => setAfk(bench, !afk),
        },
      ];
  const switched: Choice = yolo
    ? {
        label: `$(lock) ${vscode.l10n.t("Ask again for everything")}`,
        run: () => session.request("session/setYolo", { yolo: false }),
      }
    : {
        label: `$(warning) ${vscode.l10n.t("Approve Everything (YOLO)")}`,
        run: () => enableYolo(bench),
      };
  const revokable = autoApproveActions.map((action) => ({
    label: `$(trash) ${withoutIcons(vscode.l10n.t("Revoke: {0}", visible(action)))}`,
    run: () => revoke(session, action),
  }));
  return [...waiting, switched, ...presence, ...revokable];
}

async function revoke(session: Session, action: string): Promise<void> {
  requireTrust();
  await session.request("session/setAutoApprove", { action, enabled: false });
}
