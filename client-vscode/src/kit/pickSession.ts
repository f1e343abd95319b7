/** Choosing one of the sessions of the store. */

import * as vscode from "vscode";
import type { SessionInfo } from "timeleap-client";
import { thereIsNone } from "../core/commands/report.js";
import type { Sessions } from "../core/sessions/sessions.js";
import { relativeTime, tokens, tokensReported, tokensUsed } from "../shared/text/format.js";
import { withoutIcons } from "../shared/text/say.js";
import { deletionOf, programName } from "../shared/text/sources.js";
import { workspaces, type Workspace } from "../shared/workspaces.js";

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
      throw thereIsNone(title);
    }
    const older: SessionItem = { label: `$(ellipsis) ${vscode.l10n.t("Show More")}` };
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
  const parts = [folder, source?.path === undefined ? "" : programName(source.kind), archived ? vscode.l10n.t("Archived") : ""];
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
  const { archived, damaged, owner, source, updatedAt, sessionId, title } = info;
  const count = tokensOf(sessions, info);
  const shown = sessions.shown?.id === sessionId;
  const facts = [
    archived ? vscode.l10n.t("Archived") : "",
    relativeTime(updatedAt),
    count === undefined ? "" : tokens(count),
    owner && owner.pid !== process.pid && !sessions.get(sessionId) ? `PID ${String(owner.pid)}` : "",
    deletionOf(source) ?? "",
  ];
  return {
    label: withoutIcons(title ?? sessionId),
    ...(shown ? { iconPath: new vscode.ThemeIcon("check") } : {}),
    description: damaged === undefined ? facts.filter((fact) => fact !== "").join(" · ") : vscode.l10n.t("cannot be read: {0}", damaged),
    ...(title === null ? {} : { detail: sessionId }),
    info,
  };
}

/** As the status bar says where it is open; undefined: not known before it is. */
function tokensOf(sessions: Sessions, info: SessionInfo): number | undefined {
  const open = sessions.get(info.sessionId);
  return open ? tokensUsed(open.state.context) : info.tokenCountWithPending ?? tokensReported(info);
}
