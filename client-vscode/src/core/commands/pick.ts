/** Choosing from lists, for commands that come from the palette. */

import * as vscode from "vscode";
import type { Checkpoint, Timeline } from "timeleap-client";
import type { Session } from "../sessions/session.js";
import { messages, relativeTime } from "../../shared/text/format.js";
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
