/** The note to an earlier self that waits: delivered or dropped; either can be undone. */

import * as vscode from "vscode";
import type { DeliverDMailResult } from "timeleap-client";
import type { Session } from "../../core/sessions/session.js";
import { readSettings } from "../../shared/settings.js";
import { amountReplaced, oneLine } from "../../shared/text/format.js";
import { titleOf } from "../../shared/text/titles.js";
import type { Handlers, Workbench } from "../../core/commands/register.js";
import { thereIsNone } from "../../core/commands/report.js";
import { writableSession } from "../../core/commands/targets.js";
import { type Question } from "../../core/restore/changes.js";
import { kept, offer, offerUndo } from "../../core/restore/timeTravel.js";

/** How much of the note a question shows. */
const EXCERPT = 600;
/** How much of it is said of one that was dropped. */
const SAID = 80;

export function dmailCommands(bench: Workbench): Handlers {
  return {
    // From the message that a note has been left there is one way on.
    deliverDMail: (given) => (given === "deliver" ? deliver(bench) : choose(bench)),
  };
}

async function choose(bench: Workbench): Promise<void> {
  const { message } = waiting(bench);
  const items = [
    { label: `$(mail) ${vscode.l10n.t("Deliver")}`, run: deliver },
    { label: `$(trash) ${vscode.l10n.t("Drop")}`, run: drop },
  ];
  await (await vscode.window.showQuickPick(items, { title: titleOf("deliverDMail"), placeHolder: oneLine(message, EXCERPT) }))?.run(bench);
}

async function deliver(bench: Workbench): Promise<void> {
  const { session, message } = waiting(bench);
  const ask = (plan: DeliverDMailResult): Question => ({
    message: oneLine(message, EXCERPT),
    detail: `${vscode.l10n.t("This and everything after it goes: {0}.", amountReplaced(plan))}\n\n${kept()}`,
    button: vscode.l10n.t("Deliver"),
  });
  const changed = await bench.changes.make(session, "context/deliverDMail", {}, ask, readSettings().restoreAsks);
  if (changed) {
    offerUndo(bench, session, changed.done, vscode.l10n.t("D-Mail delivered: {0} set aside.", amountReplaced(changed.done)) + changed.also);
  }
}

async function drop(bench: Workbench): Promise<void> {
  const { session, message, checkpointUid } = waiting(bench);
  await session.request("context/cancelDMail", {});
  const back = async (): Promise<void> => {
    await bench.sessions.withOpen(session.id, (open) => open.request("context/sendDMail", { message, checkpointUid }));
  };
  offer(bench, vscode.l10n.t("Dropped: {0}", oneLine(message, SAID)), { title: titleOf("undo"), run: back });
}

function waiting(bench: Workbench): { readonly session: Session; readonly message: string; readonly checkpointUid: string } {
  const session = writableSession(bench.sessions);
  const { pendingDMail } = session.state;
  if (!pendingDMail) {
    throw thereIsNone(titleOf("deliverDMail"));
  }
  return { session, message: pendingDMail.message, checkpointUid: pendingDMail.checkpointUid };
}
