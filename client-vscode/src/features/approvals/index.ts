/** What agents ask for before they act. */

import * as vscode from "vscode";
import type { Feature } from "../../core/core.js";
import { ContextKeys } from "../../core/tree/context.js";
import { approvalCommands } from "./approvalCommands.js";
import { ApprovalNode } from "./approvalNode.js";
import { ApprovalQuestions } from "./approvalQuestions.js";
import { Approvals, type Asking } from "./approvals.js";
import { ApprovalItem } from "./statusItem.js";

export const approvals: Feature = (core) => {
  const { sidecar, sessions, views, changes, log } = core;
  const pending = new Approvals(sidecar, sessions);
  const asking: Asking = { sidecar, sessions, views, changes, log, approvals: pending };
  views.added.rows.push({
    rows: (session) => Promise.resolve(pending.pending(session).map((one) => new ApprovalNode(one))),
    waiting: () => pending.pending().length,
  });
  const keys = new ContextKeys();
  const tell = (): void => {
    const { yolo = false, afk = false } = sessions.shown?.state.approval ?? {};
    keys.update({ "timeleap.approvals": pending.pending().length > 0, "timeleap.afk": afk, "timeleap.yolo": yolo });
  };
  const followed = sessions.followShown((session) => {
    tell();
    return session?.onDidChange(tell);
  });
  tell();
  return vscode.Disposable.from(
    pending,
    pending.onDidChange(() => {
      tell();
      views.redraw();
    }),
    followed,
    new ApprovalItem(sessions, pending),
    new ApprovalQuestions(asking),
    core.commands(approvalCommands(asking)),
  );
};
