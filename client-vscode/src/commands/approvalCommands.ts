/** What the agent may do without asking: shown, and switched on only by a person who was told what it means. */

import * as vscode from "vscode";
import type { Session } from "../sessions/session.js";
import type { Handlers, Workbench } from "./register.js";
import { requireTrust, shownSession, writableSession } from "./targets.js";
import { confirm } from "./timeTravel.js";

export function approvalCommands(bench: Workbench): Handlers {
  return {
    manageApprovals: () => manage(bench),
    enableYolo: () => enableYolo(bench),
    // Always allowed: it takes something away.
    disableYolo: () => shownSession(bench.sessions).request("session/setYolo", { yolo: false }),
  };
}

async function enableYolo(bench: Workbench): Promise<void> {
  const session = writableSession(bench.sessions);
  const agreed = await confirm(
    vscode.l10n.t("Approve everything in “{0}”?", session.name),
    vscode.l10n.t("The agent of this session will run commands and change files without asking, until you turn this off. The status bar shows it all the time."),
    vscode.l10n.t("Approve Everything"),
  );
  if (agreed) {
    await session.request("session/setYolo", { yolo: true });
  }
}

interface Choice extends vscode.QuickPickItem {
  readonly run: () => Promise<unknown>;
}

async function manage(bench: Workbench): Promise<void> {
  const session = shownSession(bench.sessions);
  const choice = await vscode.window.showQuickPick(choices(session, bench), {
    title: vscode.l10n.t("Approvals of “{0}”", session.name),
    placeHolder: vscode.l10n.t("What the agent may do without asking"),
  });
  await choice?.run();
}

function choices(session: Session, bench: Workbench): Choice[] {
  const { yolo, autoApproveActions } = session.state.approval;
  const switched: Choice = yolo
    ? {
        label: `$(lock) ${vscode.l10n.t("Ask again for everything")}`,
        description: vscode.l10n.t("YOLO is on: everything is approved"),
        run: () => session.request("session/setYolo", { yolo: false }),
      }
    : {
        label: `$(warning) ${vscode.l10n.t("Approve everything (YOLO)…")}`,
        description: vscode.l10n.t("asks first what that means"),
        run: () => enableYolo(bench),
      };
  const revokable = autoApproveActions.map((action) => ({
    label: `$(trash) ${vscode.l10n.t("Revoke: {0}", action)}`,
    description: vscode.l10n.t("approved without asking"),
    run: () => revoke(session, action),
  }));
  const none: Choice[] = [{ label: vscode.l10n.t("No single action is approved without asking"), run: () => Promise.resolve() }];
  return [switched, ...(revokable.length === 0 ? none : revokable)];
}

async function revoke(session: Session, action: string): Promise<void> {
  requireTrust();
  await session.request("session/setAutoApprove", { action, enabled: false });
}
