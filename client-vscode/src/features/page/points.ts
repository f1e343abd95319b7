/** Choosing what a state of a conversation is compared with. */

import * as vscode from "vscode";
import { pickSession } from "../../kit/pickSession.js";
import type { Workbench } from "../../core/commands/register.js";
import type { Session } from "../../core/sessions/session.js";
import { timelinesOf } from "../../kit/timelines.js";
import { messages } from "../../shared/text/format.js";
import { checkpointName } from "../../shared/text/happened.js";
import { withoutIcons } from "../../shared/text/say.js";
import { timelineName } from "../../kit/branches.js";
import type { Point } from "./wire.js";

/** A state to compare with: the present, a checkpoint or the end of a branch of this session, or another session. Undefined: none was chosen. */
export async function pickPoint(bench: Pick<Workbench, "sessions">, session: Session, title: string): Promise<Point | undefined> {
  const [timelines, spans] = await Promise.all([timelinesOf(session).list(), session.log.spans()]);
  const items: (vscode.QuickPickItem & { readonly point?: Point })[] = [
    { label: `$(comment-discussion) ${vscode.l10n.t("Another session…")}` },
    { label: `$(comment) ${vscode.l10n.t("Present")}`, description: messages(session.state.context.messageCount), point: {} },
    ...timelines.map((timeline) => ({ label: `$(history) ${withoutIcons(timelineName(timeline))}`, description: messages(timeline.messageCount), point: { timelineId: timeline.timelineId } })),
    ...spans.map(({ checkpoint }) => {
      const name = checkpointName(checkpoint);
      const { messageCount: end, tokenCount: tokens } = checkpoint;
      return { label: `$(bookmark) ${withoutIcons(name)}`, description: messages(end), point: { end, name, ...(tokens > 0 ? { tokens } : {}) } };
    }),
  ];
  const chosen = await vscode.window.showQuickPick(items, { title, matchOnDescription: true });
  if (!chosen || chosen.point) {
    return chosen?.point;
  }
  const info = await pickSession(bench.sessions, title);
  return info && { session: info.sessionId };
}
