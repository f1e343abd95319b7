/** Sessions: opening, naming, putting away. */

import * as vscode from "vscode";
import { CheckpointNode } from "../../core/tree/checkpointNodes.js";
import { ChosenSession } from "../../kit/chosen.js";
import { TimelineNode } from "../../kit/branches.js";
import { chooseWorkspace } from "../../shared/workspaces.js";
import { readSettings } from "../../shared/settings.js";
import { amount } from "../../shared/text/format.js";
import { fork } from "../../kit/forking.js";
import type { Handlers, Workbench } from "../../core/commands/register.js";
import { thereIsNone } from "../../core/commands/report.js";
import { requireTrust, shownSession, target, writableSession } from "../../core/commands/targets.js";
import { confirm } from "../../core/restore/changes.js";
import { kept, offer, offerUndo } from "../../core/restore/timeTravel.js";
import { pickSession } from "../../kit/pickSession.js";
import { chooseTrashed, manageSession, otherWays } from "./choosing.js";
import { titleOf } from "../../shared/text/titles.js";
import { headed } from "../../shared/text/detail.js";

export function sessionCommands(bench: Workbench): Handlers {
  return {
    newSession: () => newSession(bench),
    openSession: (node) => openSession(bench, node),
    closeSession: (node) => bench.sessions.close(sessionId(bench, node)),
    fork: (node) => forkRow(bench, node),
    setTitle: (node) => setTitle(bench, node),
    archive: (node) => archive(bench, node, "session/archive"),
    unarchive: (node) => archive(bench, node, "session/unarchive"),
    delete: (node) => deleteSession(bench, node),
    undelete: () => undelete(bench),
    manageSessions: () => manageSession(bench.sessions),
    copyId: (node) => copyId(node),
    reloadSession: () => reload(bench),
    clear: () => clear(bench),
  };
}

async function newSession({ sessions }: Workbench): Promise<void> {
  requireTrust();
  const title = await vscode.window.showInputBox({
    title: titleOf("newSession"),
    prompt: vscode.l10n.t("Name; it may be empty"),
  });
  if (title === undefined) {
    return;
  }
  const workspace = await chooseWorkspace();
  if (workspace === undefined) {
    return;
  }
  await sessions.open({
    ...(title.trim() === "" ? {} : { title: title.trim() }),
    ...(workspace === null ? {} : { workspace: workspace.uri }),
  });
  await vscode.commands.executeCommand("timeleap.checkpoints.focus");
}

async function openSession(bench: Workbench, node: unknown): Promise<void> {
  const { sessions } = bench;
  const given = node instanceof ChosenSession ? node.info : undefined;
  const info = given ?? (await pickSession(sessions, titleOf("openSession"), otherWays(() => openFolder(bench))));
  if (info) {
    await sessions.open({ sessionId: info.sessionId, create: false });
    await vscode.commands.executeCommand(given ? "timeleap.openConversation" : "timeleap.checkpoints.focus");
  }
}

async function openFolder({ sessions }: Workbench): Promise<void> {
  const [folder] = (await vscode.window.showOpenDialog({
    canSelectFolders: true,
    canSelectFiles: false,
    openLabel: vscode.l10n.t("Open"),
    title: vscode.l10n.t("A folder with a context.jsonl"),
  })) ?? [undefined];
  if (!folder) {
    return;
  }
  const access = await vscode.window.showQuickPick(
    [
      { label: vscode.l10n.t("Look only"), access: "readOnly" as const },
      ...(vscode.workspace.isTrusted
        ? [{ label: vscode.l10n.t("Look and change"), access: "write" as const }]
        : []),
    ],
    { title: folder.fsPath },
  );
  if (access) {
    await sessions.open({ path: folder.fsPath, access: access.access });
    await vscode.commands.executeCommand("timeleap.checkpoints.focus");
  }
}

async function forkRow(bench: Workbench, node: unknown): Promise<void> {
  requireTrust();
  const whole = vscode.l10n.t("Fork…");
  if (node instanceof ChosenSession) {
    await fork(bench, { id: node.info.sessionId, name: node.name }, whole, {});
    return;
  }
  const row = target(CheckpointNode, node);
  if (row) {
    await fork(bench, row.place.session, `${titleOf("fork")} ${row.name}`, { checkpointUid: row.span.checkpoint.uid });
    return;
  }
  await fork(bench, shownSession(bench.sessions), whole, {});
}

async function setTitle(bench: Workbench, node: unknown): Promise<void> {
  requireTrust();
  const id = sessionId(bench, node);
  const name = node instanceof ChosenSession ? node.info.title : (bench.sessions.get(id)?.state.title ?? "");
  const title = await vscode.window.showInputBox({ title: vscode.l10n.t("Rename…"), value: name ?? "" });
  if (title !== undefined) {
    await bench.sessions.withOpen(id, (session) => session.request("session/setTitle", { title }));
    bench.sessions.listMayHaveChanged();
  }
}

async function archive(bench: Workbench, node: unknown, method: "session/archive" | "session/unarchive"): Promise<void> {
  requireTrust();
  await bench.sidecar.request(method, { sessionId: sessionId(bench, node) });
  bench.sessions.listMayHaveChanged();
}

async function deleteSession(bench: Workbench, node: unknown): Promise<void> {
  requireTrust();
  const id = sessionId(bench, node);
  const open = bench.sessions.get(id);
  const name = node instanceof ChosenSession ? node.name : (open?.name ?? id);
  const shown = bench.sessions.shown?.id === id;
  await (open ? open.request("session/delete", {}) : bench.sidecar.request("session/delete", { sessionId: id }));
  bench.sessions.forget(id);
  const back = async (): Promise<void> => {
    await takeOut(bench, id);
    if (shown) {
      await bench.sessions.open({ sessionId: id, create: false });
    }
  };
  offer(bench, vscode.l10n.t("In the trash: {0}", name), { title: titleOf("undo"), run: back });
}

async function takeOut({ sidecar, sessions }: Workbench, sessionId: string): Promise<void> {
  await sidecar.request("session/undelete", { sessionId });
  sessions.listMayHaveChanged();
}

async function undelete(bench: Workbench): Promise<void> {
  requireTrust();
  const info = await chooseTrashed(bench.sidecar, vscode.l10n.t("Take Out of the Trash"));
  if (info) {
    await takeOut(bench, info.sessionId);
  }
}

async function copyId(node: unknown): Promise<void> {
  const id =
    node instanceof CheckpointNode
      ? node.span.checkpoint.uid
      : node instanceof TimelineNode
        ? node.timeline.timelineId
        : node instanceof ChosenSession
          ? node.info.sessionId
          : undefined;
  if (id !== undefined) {
    await vscode.env.clipboard.writeText(id);
  }
}

async function reload(bench: Workbench): Promise<void> {
  const { problem } = bench.sessions;
  if (problem) {
    await bench.sessions.tryAgain(problem);
    return;
  }
  const session = shownSession(bench.sessions);
  if (session.followed || session.obstacle) {
    await bench.sessions.close(session.id);
    await bench.sessions.open(session.how);
    return;
  }
  session.take(await session.request("session/reload", {}));
}

function sessionId({ sessions }: Workbench, node: unknown): string {
  return node instanceof ChosenSession ? node.info.sessionId : shownSession(sessions).id;
}

async function clear(bench: Workbench): Promise<void> {
  const session = writableSession(bench.sessions);
  const plan = await session.request("context/clear", { dryRun: true });
  const verb = vscode.l10n.t("Clear Conversation");
  if (plan.removed.messages + plan.removed.checkpoints === 0) {
    throw thereIsNone(verb);
  }
  if (!readSettings().restoreAsks || (await confirm(headed(verb, session.name), `${amount(plan)}\n\n${kept()}`, verb))) {
    const done = await session.request("context/clear", { expectedHead: plan.head });
    offerUndo(bench, session, done, vscode.l10n.t("Cleared: {0} set aside.", amount(done)));
  }
}
