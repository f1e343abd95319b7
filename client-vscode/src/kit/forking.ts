/** Forks: new sessions that begin as another one does, up to a checkpoint or a message of it. */

import * as vscode from "vscode";
import type { Checkpoint } from "timeleap-client";
import type { Session } from "../core/sessions/session.js";
import { titleOf } from "../shared/text/titles.js";
import type { Workbench } from "../core/commands/register.js";
import { requireTrust } from "../core/commands/targets.js";

/** Which session is forked; it need not be open. */
export interface Origin {
  readonly id: string;
  readonly name: string;
}

/** The part of the origin that the fork has. */
export interface ForkPoint {
  /** The fork ends right before this checkpoint; absent: it has everything. */
  readonly checkpointUid?: string;
  /** So many messages stay of that. */
  readonly end?: number;
}

/** A new session that ends with this message, wherever it is asked for. */
export async function forkAtMessage(bench: Workbench, session: Session, index: number): Promise<void> {
  const end = index + 1;
  const behind = await checkpointBefore(session, end);
  const point = behind?.messageCount === end ? { checkpointUid: behind.uid } : { end };
  await fork(bench, session, titleOf("fork"), point);
}

/** Asks for a title and shows the new session. */
export async function fork(bench: Workbench, { id, name }: Origin, question: string, { checkpointUid, end }: ForkPoint): Promise<void> {
  requireTrust();
  const title = await vscode.window.showInputBox({
    title: question,
    prompt: vscode.l10n.t("Name; it may be empty"),
    value: vscode.l10n.t("{0} (fork)", name),
  });
  if (title === undefined) {
    return;
  }
  const state = await bench.sidecar.request("session/fork", {
    sessionId: id,
    ...(checkpointUid === undefined ? {} : { checkpointUid }),
    ...(title.trim() === "" ? {} : { title: title.trim() }),
  });
  const forked = bench.sessions.adopt({}, state);
  // The server forks at checkpoints only: what is after the message is a timeline of the new session.
  if (end !== undefined && end < state.context.messageCount) {
    await forked.request("context/revertTo", { messageIndex: end });
  }
  bench.sessions.show(forked);
}

/** The last checkpoint with at most so many messages before it. */
export async function checkpointBefore(session: Session, index: number): Promise<Checkpoint | undefined> {
  let cursor: string | undefined;
  do {
    const page = await session.request("context/listCheckpoints", { order: "desc", limit: 1_000, ...(cursor === undefined ? {} : { cursor }) });
    const found = page.checkpoints.find(({ messageCount }) => messageCount <= index);
    if (found) {
      return found;
    }
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return undefined;
}
