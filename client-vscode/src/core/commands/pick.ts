/** Choosing from lists, for commands that come from the palette. */

import * as vscode from "vscode";
import type { Checkpoint, SessionInfo, Timeline, TrashedSession } from "timeleap-client";
import type { Wire } from "../server/sidecar.js";
import type { Session } from "../sessions/session.js";
import type { Sessions } from "../sessions/sessions.js";
import { isAmong, workspaces } from "../sessions/workspaces.js";
import { messages, relativeTime, tokens } from "../../shared/text/format.js";
import { checkpointName } from "../../shared/text/happened.js";
import { timelineName } from "../tree/timelinesTree.js";
import { Refusal } from "./report.js";

/** One of the loaded checkpoints. */
export async function pickCheckpoint(session: Session, title: string): Promise<Checkpoint | undefined> {
  const spans = await session.log.spans();
  if (spans.length === 0) {
    throw new Refusal(vscode.l10n.t("This session has no checkpoints."));
  }
  const items = spans.map(({ checkpoint }) => ({
    label: checkpointName(checkpoint),
    description: [...(checkpoint.createdAt === undefined ? [] : [relativeTime(checkpoint.createdAt)]), messages(checkpoint.messageCount)].join(" · "),
    checkpoint,
  }));
  return (await vscode.window.showQuickPick(items, { title, matchOnDescription: true }))?.checkpoint;
}

/** One of the loaded timelines, newest first. */
export async function pickTimeline(session: Session, title: string): Promise<Timeline | undefined> {
  const timelines = await session.timelines.list();
  if (timelines.length === 0) {
    throw new Refusal(vscode.l10n.t("This session has no timelines: nothing has been set aside yet."));
  }
  const items = timelines.map((timeline) => ({ label: timelineName(timeline, session.timelines.known(timeline)), description: timelineName(timeline), timeline }));
  return (await vscode.window.showQuickPick(items, { title }))?.timeline;
}

/** One of the sessions that were deleted last. */
export async function pickTrashed(wire: Pick<Wire, "request">, title: string): Promise<TrashedSession | undefined> {
  const { sessions } = await wire.request("session/listTrash", { limit: 100 });
  if (sessions.length === 0) {
    throw new Refusal(vscode.l10n.t("The trash is empty."));
  }
  const items = sessions.map((info) => ({ label: info.title ?? info.sessionId, description: vscode.l10n.t("deleted {0}", relativeTime(info.deletedAt)), info }));
  return (await vscode.window.showQuickPick(items, { title }))?.info;
}

/** One of the sessions changed last, this workspace's first, or something else that is offered behind them. */
export async function pickSession<T extends vscode.QuickPickItem = never>(sessions: Sessions, title: string, ...others: readonly T[]): Promise<SessionInfo | T | undefined> {
  const { sessions: list } = await sessions.list({ limit: 100 });
  if (list.length + others.length === 0) {
    throw new Refusal(vscode.l10n.t("There are no sessions yet."));
  }
  const folders = workspaces();
  const here = list.filter(({ workspace }) => isAmong(folders, workspace));
  const ordered = [...here, ...list.filter((info) => !here.includes(info))];
  const items = ordered.map((info) => {
    const count = sessions.tokensOf(info);
    return {
      label: info.title ?? info.sessionId,
      description: [relativeTime(info.updatedAt), ...(count === undefined ? [] : [tokens(count)])].join(" · "),
      ...(info.title === null ? {} : { detail: info.sessionId }),
      info,
    };
  });
  const offered: ((typeof items)[number] | T)[] = [...items, ...others];
  const chosen = await vscode.window.showQuickPick(offered, { title, matchOnDescription: true, matchOnDetail: true });
  return chosen && "info" in chosen ? chosen.info : chosen;
}

export type Format = "markdown" | "html" | "native";

/** What a session can be written as. */
export const FORMATS: Readonly<Record<Format, { readonly extension: string; readonly name: string }>> = {
  html: { extension: "html", name: "HTML" },
  markdown: { extension: "md", name: "Markdown" },
  native: { extension: "zip", name: "ZIP" },
};

export async function chooseFormat(title: string): Promise<Format | undefined> {
  const items: (vscode.QuickPickItem & { readonly format: Format })[] = [
    { format: "html", label: vscode.l10n.t("HTML page"), detail: vscode.l10n.t("One file for a browser: a slider through the checkpoints, the timelines, search") },
    { format: "markdown", label: vscode.l10n.t("Markdown"), detail: vscode.l10n.t("The conversation, to read") },
    { format: "native", label: vscode.l10n.t("Archive"), detail: vscode.l10n.t("Everything, with checksums: “Import Session” makes the same session of it") },
  ];
  return (await vscode.window.showQuickPick(items, { title }))?.format;
}
