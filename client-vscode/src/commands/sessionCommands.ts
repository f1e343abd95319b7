/** Sessions: opening, naming, putting away. */

import * as vscode from "vscode";
import { DocumentPlace } from "../documents/lenses.js";
import { CheckpointNode } from "../views/checkpointNodes.js";
import { SessionNode, TrashedNode } from "../views/sessionsTree.js";
import { TimelineNode } from "../views/timelinesTree.js";
import { chooseWorkspace } from "../sessions/workspaces.js";
import { sayInformation, withoutIcons } from "../text/say.js";
import { pickSession, pickTrashed } from "./pick.js";
import type { Handlers, Workbench } from "./register.js";
import { requireTrust, shownSession, target } from "./targets.js";
import { confirm } from "./timeTravel.js";

export function sessionCommands(bench: Workbench): Handlers {
  return {
    newSession: () => newSession(bench),
    openSession: (node) => openSession(bench, node),
    openFolder: () => openFolder(bench),
    closeSession: (node) => bench.sessions.close(sessionId(bench, node)),
    fork: (node) => fork(bench, node),
    setTitle: (node) => setTitle(bench, node),
    archive: (node) => archive(bench, node, "session/archive"),
    unarchive: (node) => archive(bench, node, "session/unarchive"),
    delete: (node) => deleteSession(bench, node),
    undelete: (node) => undelete(bench, node),
    copyId: (node) => copyId(node),
    reloadSession: () => reload(bench),
  };
}

async function newSession({ sessions }: Workbench): Promise<void> {
  requireTrust();
  const title = await vscode.window.showInputBox({
    title: vscode.l10n.t("New Session"),
    prompt: vscode.l10n.t("What is the session about? It may be empty"),
  });
  if (title === undefined) {
    return;
  }
  const workspace = await chooseWorkspace();
  if (workspace === undefined) {
    return;
  }
  const session = await sessions.open({
    ...(title.trim() === "" ? {} : { title: title.trim() }),
    ...(workspace === null ? {} : { workspace: workspace.uri }),
  });
  await vscode.commands.executeCommand("timeleap.checkpoints.focus");
  // Said because an empty session shows nothing that could be seen to have appeared.
  vscode.window.setStatusBarMessage(withoutIcons(vscode.l10n.t("Opened the session {0}", session.name)), 5_000);
}

async function openSession({ sessions }: Workbench, node: unknown): Promise<void> {
  const given = node instanceof SessionNode ? node.info : undefined;
  const info = given ?? (await pickSession(sessions, vscode.l10n.t("Open which session?")));
  if (info) {
    await sessions.open({ sessionId: info.sessionId, create: false });
    await vscode.commands.executeCommand(given ? "timeleap.openConversation" : "timeleap.checkpoints.focus");
  }
}

async function openFolder({ sessions }: Workbench): Promise<void> {
  const [folder] = (await vscode.window.showOpenDialog({
    canSelectFolders: true,
    canSelectFiles: false,
    openLabel: vscode.l10n.t("Open as Session"),
    title: vscode.l10n.t("A folder with a context.jsonl"),
  })) ?? [undefined];
  if (!folder) {
    return;
  }
  const access = await vscode.window.showQuickPick(
    [
      { label: vscode.l10n.t("Look only"), detail: vscode.l10n.t("Nothing in the folder is changed; what others write appears here"), access: "readOnly" as const },
      ...(vscode.workspace.isTrusted
        ? [{ label: vscode.l10n.t("Look and change"), detail: vscode.l10n.t("Allows checkpoints and reverts in this folder"), access: "write" as const }]
        : []),
    ],
    { title: vscode.l10n.t("Open {0}", folder.fsPath) },
  );
  if (access) {
    await sessions.open({ path: folder.fsPath, access: access.access });
    await vscode.commands.executeCommand("timeleap.checkpoints.focus");
  }
}

async function fork(bench: Workbench, node: unknown): Promise<void> {
  requireTrust();
  const row = target(CheckpointNode, node);
  const origin = node instanceof SessionNode ? node : undefined;
  const place = node instanceof DocumentPlace ? node : undefined;
  const id = origin?.info.sessionId ?? (place?.session ?? row?.place.session ?? shownSession(bench.sessions)).id;
  const name = origin?.name ?? (place?.session ?? row?.place.session ?? shownSession(bench.sessions)).name;
  const title = await vscode.window.showInputBox({
    title: row ? vscode.l10n.t("Fork from “{0}”", row.name) : vscode.l10n.t("Fork the session"),
    prompt: vscode.l10n.t("Title of the new session"),
    value: vscode.l10n.t("{0} (fork)", name),
  });
  if (title === undefined) {
    return;
  }
  const checkpointUid = place?.checkpointUid ?? row?.span.checkpoint.uid;
  const state = await bench.sidecar.request("session/fork", {
    sessionId: id,
    ...(checkpointUid === undefined ? {} : { checkpointUid }),
    ...(title.trim() === "" ? {} : { title: title.trim() }),
  });
  const forked = bench.sessions.adopt({}, state);
  const { index } = place ?? {};
  // Forks are made of checkpoints or of the whole: without a checkpoint before the message, the new session goes back to there.
  if (checkpointUid === undefined && index !== undefined && index < state.context.messageCount) {
    await forked.request("context/revertTo", { messageIndex: index });
  }
  bench.sessions.show(forked);
  void sayInformation(vscode.l10n.t("You are in the fork “{0}” now; the session it came from is unchanged.", title));
}

async function setTitle(bench: Workbench, node: unknown): Promise<void> {
  requireTrust();
  const id = sessionId(bench, node);
  const name = node instanceof SessionNode ? node.info.title : (bench.sessions.get(id)?.state.title ?? "");
  const title = await vscode.window.showInputBox({ title: vscode.l10n.t("Title of the session"), value: name ?? "" });
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
  const name = node instanceof SessionNode ? node.name : id;
  const button = vscode.l10n.t("Delete");
  if (await confirm(vscode.l10n.t("Delete “{0}”?", name), vscode.l10n.t("It goes to Timeleap's trash and can be taken out again."), button)) {
    await bench.sidecar.request("session/delete", { sessionId: id });
    bench.sessions.deleted(id);
  }
}

async function undelete(bench: Workbench, node: unknown): Promise<void> {
  requireTrust();
  const given = node instanceof TrashedNode ? node.info : undefined;
  const info = given ?? (await pickTrashed(bench.sidecar, vscode.l10n.t("Take which session out of the trash?")));
  if (info) {
    await bench.sidecar.request("session/undelete", { sessionId: info.sessionId });
    bench.sessions.listMayHaveChanged();
  }
}

async function copyId(node: unknown): Promise<void> {
  const id =
    node instanceof CheckpointNode
      ? node.span.checkpoint.uid
      : node instanceof TimelineNode
        ? node.timeline.timelineId
        : node instanceof SessionNode || node instanceof TrashedNode
          ? node.info.sessionId
          : undefined;
  if (id !== undefined) {
    await vscode.env.clipboard.writeText(id);
  }
}

async function reload(bench: Workbench): Promise<void> {
  const { problem } = bench.sessions;
  if (problem) {
    await bench.sessions.open(problem.how);
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
  return node instanceof SessionNode ? node.info.sessionId : shownSession(sessions).id;
}
