/** Choosing from lists, for commands that come from the palette. */

import * as vscode from "vscode";
import type { Checkpoint, SessionInfo, Timeline } from "timeleap-client";
import type { Session } from "../sessions/session.js";
import type { Sessions } from "../sessions/sessions.js";
import { programName } from "../sessions/sources.js";
import { workspaces, type Workspace } from "../sessions/workspaces.js";
import { messages, relativeTime, tokens } from "../../shared/text/format.js";
import { withoutIcons } from "../../shared/text/say.js";
import { checkpointName } from "../../shared/text/happened.js";
import { timelineName } from "../tree/branches.js";
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

export interface SessionItem extends vscode.QuickPickItem {
  readonly info?: SessionInfo;
  /** What is done in place of choosing a session. */
  readonly run?: () => Thenable<unknown>;
}

/** Sessions of a page. */
const PAGE = 100;

/** One of the sessions, those of this window's folders first. Undefined: none, or something else was chosen and done. */
export async function pickSession(sessions: Sessions, title: string, others: readonly SessionItem[] = []): Promise<SessionInfo | undefined> {
  const known: SessionInfo[] = [];
  let cursor: string | undefined;
  for (;;) {
    const page = await sessions.list({ limit: PAGE, includeArchived: true, ...(cursor === undefined ? {} : { cursor }) });
    known.push(...page.sessions);
    cursor = page.nextCursor;
    if (known.length + others.length === 0) {
      throw new Refusal(vscode.l10n.t("There are no sessions yet."));
    }
    const older: SessionItem = { label: `$(ellipsis) ${vscode.l10n.t("Show older sessions")}` };
    const items = [...grouped(sessions, known), ...(cursor === undefined ? [] : [older]), ...others];
    const chosen = await vscode.window.showQuickPick(items, { title, matchOnDescription: true, matchOnDetail: true });
    if (chosen !== older) {
      await chosen?.run?.();
      return chosen?.info;
    }
  }
}

/** Under headings; in each the session that changed last comes first. */
function grouped(sessions: Sessions, known: readonly SessionInfo[]): SessionItem[] {
  const folders = workspaces();
  const groups = new Map<string, SessionInfo[]>();
  for (const info of [...known].sort((one, other) => rank(one, folders) - rank(other, folders))) {
    const heading = headingOf(info, folders);
    groups.set(heading, [...(groups.get(heading) ?? []), info]);
  }
  return [...groups].flatMap(([label, infos]) => [{ label, kind: vscode.QuickPickItemKind.Separator }, ...infos.map((info) => itemOf(sessions, info))]);
}

/** The window's folders in their order, then the others, archived ones at the end. */
function rank({ archived, workspace }: SessionInfo, folders: readonly Workspace[]): number {
  const at = folders.findIndex(({ uri }) => uri === workspace);
  return (archived ? folders.length + 1 : 0) + (at === -1 ? folders.length : at);
}

/** "shop · Claude Code" */
function headingOf({ archived, workspace, source }: SessionInfo, folders: readonly Workspace[]): string {
  const folder = folders.find(({ uri }) => uri === workspace)?.name ?? (workspace === undefined ? vscode.l10n.t("No folder") : lastOf(workspace));
  const parts = [folder, source?.path === undefined ? "" : programName(source.kind), archived ? vscode.l10n.t("archived") : ""];
  return parts.filter((part) => part !== "").join(" · ");
}

function lastOf(uri: string): string {
  const [name = uri] = uri.split("/").filter((part) => part !== "").slice(-1);
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

function itemOf(sessions: Sessions, info: SessionInfo): SessionItem {
  const { archived, damaged, owner, updatedAt, sessionId, title } = info;
  const count = sessions.tokensOf(info);
  const shown = sessions.shown?.id === sessionId;
  const facts = [
    shown ? vscode.l10n.t("shown") : sessions.isOpen(sessionId) ? vscode.l10n.t("open") : "",
    archived ? vscode.l10n.t("archived") : "",
    relativeTime(updatedAt),
    count === undefined ? "" : tokens(count),
    owner && owner.pid !== process.pid && !sessions.get(sessionId) ? vscode.l10n.t("in use by process {0}", String(owner.pid)) : "",
  ];
  return {
    label: withoutIcons(title ?? sessionId),
    description: damaged === undefined ? facts.filter((fact) => fact !== "").join(" · ") : vscode.l10n.t("cannot be read: {0}", damaged),
    ...(title === null ? {} : { detail: sessionId }),
    info,
  };
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
