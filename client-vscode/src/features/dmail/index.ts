/** A note to an earlier self of the agent, until it is delivered. */

import * as vscode from "vscode";
import type { Feature } from "../../core/core.js";
import type { PendingDMail } from "timeleap-client";
import type { Session } from "../../core/sessions/session.js";
import type { RowPart, RowSource } from "../../core/tree/parts.js";
import { ContextKeys } from "../../core/tree/context.js";
import { checkpointName } from "../../shared/text/happened.js";
import { dmailCommands } from "./dmailCommands.js";
import { DMailNode } from "./dmailNode.js";

/** The row of what waits, above the checkpoints. */
export const dmailRows: RowSource = {
  rows: async (session) => {
    const { pendingDMail } = session.state;
    return pendingDMail ? [await row(session, pendingDMail)] : [];
  },
};

/** That a note is on its way to a row. */
export const dmailFacts: RowPart = {
  facts: ({ place: { session, log }, span }) => {
    const here = log.timelineId === undefined && session.state.pendingDMail?.checkpointUid === span.checkpoint.uid;
    return here ? [vscode.l10n.t("D-Mail")] : [];
  },
};

export const dmail: Feature = (core) => {
  const { sessions, views } = core;
  views.added.rows.push(dmailRows);
  views.added.parts.push(dmailFacts);
  const keys = new ContextKeys();
  const tell = (): void => keys.update({ "timeleap.dmail": Boolean(sessions.shown?.state.pendingDMail) });
  const followed = sessions.followShown((session) => {
    tell();
    return session?.onDidChange(tell);
  });
  tell();
  return vscode.Disposable.from(followed, core.commands(dmailCommands(core)));
};

async function row(session: Session, waiting: PendingDMail): Promise<DMailNode> {
  const target = (await session.log.spans()).find(({ checkpoint }) => checkpoint.uid === waiting.checkpointUid);
  return new DMailNode(session, waiting, target && checkpointName(target.checkpoint));
}
