/** What can be done with a session that is not shown, or is in the trash. */

import * as vscode from "vscode";
import { withoutIcons } from "../../shared/text/say.js";
import type { SessionInfo, TrashedSession } from "timeleap-client";
import { pickSession, type SessionItem } from "../../kit/pickSession.js";
import { thereIsNone } from "../../core/commands/report.js";
import type { Wire } from "../../core/server/sidecar.js";
import { ChosenSession } from "../../kit/chosen.js";
import type { Sessions } from "../../core/sessions/sessions.js";
import { fullTime, messages, relativeTime } from "../../shared/text/format.js";
import { titleOf } from "../../shared/text/titles.js";

/** Sessions in the trash that can be chosen from. */
const MOST = 100;

/** What else begins with a list of sessions. */
export function otherWays(openFolder: () => Promise<void>): SessionItem[] {
  const command = (icon: string, label: string, id: string): SessionItem => ({ label: `$(${icon}) ${label}`, run: () => vscode.commands.executeCommand(`timeleap.${id}`) });
  return [
    { label: "", kind: vscode.QuickPickItemKind.Separator },
    command("add", titleOf("newSession"), "newSession"),
    { label: `$(root-folder-opened) ${vscode.l10n.t("A folder with a context.jsonl")}`, alwaysShow: true, run: openFolder },
    command("cloud-download", titleOf("importSession"), "importSession"),
    command("settings", titleOf("manageSessions"), "manageSessions"),
    command("trash", vscode.l10n.t("Take Out of the Trash"), "undelete"),
    command("beaker", vscode.l10n.t("Sample Conversation"), "openSample"),
  ];
}

/** Asks for a session and for what is done with it. */
export async function manageSession(sessions: Sessions): Promise<void> {
  const info = await pickSession(sessions, titleOf("manageSessions"));
  if (!info) {
    return;
  }
  const session = new ChosenSession(info);
  const command = (label: string, id: string): SessionItem => ({ label, run: () => vscode.commands.executeCommand(`timeleap.${id}`, session) });
  const items = [
    command(vscode.l10n.t("Open"), "openSession"),
    command(titleOf("openConversation"), "openConversation"),
    command(vscode.l10n.t("Rename…"), "setTitle"),
    command(vscode.l10n.t("Fork…"), "fork"),
    info.archived ? command(vscode.l10n.t("Unarchive"), "unarchive") : command(vscode.l10n.t("Archive"), "archive"),
    command(vscode.l10n.t("Delete"), "delete"),
    command(titleOf("exportSession"), "exportSession"),
    command(titleOf("compare"), "compare"),
    command(titleOf("copyId"), "copyId"),
    ...(sessions.isOpen(info.sessionId) ? [command(vscode.l10n.t("Close Session"), "closeSession")] : []),
    ...(sessions.shown?.id === info.sessionId ? [command(titleOf("refresh"), "reloadSession"), command(vscode.l10n.t("Clear Conversation"), "clear")] : []),
  ];
  await (await vscode.window.showQuickPick(items, { title: session.name, placeHolder: factsOf(info) }))?.run?.();
}

function factsOf({ messageCount, createdAt, updatedAt, path }: SessionInfo): string {
  return [messages(messageCount), `${fullTime(createdAt)} – ${fullTime(updatedAt)}`, path].join(" · ");
}

/** One of the sessions that were deleted last; only the newest of an id can be taken out again. */
export async function chooseTrashed(wire: Pick<Wire, "request">, title: string): Promise<TrashedSession | undefined> {
  const { sessions } = await wire.request("session/listTrash", { limit: MOST });
  if (sessions.length === 0) {
    throw thereIsNone(title);
  }
  const newest = new Map([...sessions].reverse().map((info) => [info.sessionId, info]));
  const items = [...newest.values()].reverse().map((info) => {
    return { label: withoutIcons(info.title ?? info.sessionId), description: relativeTime(info.deletedAt), info };
  });
  return (await vscode.window.showQuickPick(items, { title }))?.info;
}
