/** Choosing from lists, for commands that come from the palette. */

import * as vscode from "vscode";
import type { Checkpoint } from "timeleap-client";
import type { Session } from "../sessions/session.js";
import { messages, relativeTime } from "../../shared/text/format.js";
import { checkpointName } from "../../shared/text/happened.js";
import { thereIsNone } from "./report.js";

/** One of the loaded checkpoints. */
export async function pickCheckpoint(session: Session, title: string): Promise<Checkpoint | undefined> {
  const spans = await session.log.spans();
  if (spans.length === 0) {
    throw thereIsNone(title);
  }
  const items = spans.map(({ checkpoint }) => ({
    label: checkpointName(checkpoint),
    description: [...(checkpoint.createdAt === undefined ? [] : [relativeTime(checkpoint.createdAt)]), messages(checkpoint.messageCount)].join(" · "),
    checkpoint,
  }));
  return (await vscode.window.showQuickPick(items, { title, matchOnDescription: true }))?.checkpoint;
}
