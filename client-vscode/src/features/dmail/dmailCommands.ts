/** The note to an earlier self that waits: delivered, after its dry run was shown, or dropped. */

import * as vscode from "vscode";
import type { DeliverDMailResult } from "timeleap-client";
import type { Session } from "../../core/sessions/session.js";
import { amountReplaced, oneLine } from "../../shared/text/format.js";
import type { Handlers, Workbench } from "../../core/commands/register.js";
import { thereIsNone } from "../../core/commands/report.js";
import { writableSession } from "../../core/commands/targets.js";
import { confirm, type Question } from "../../core/restore/changes.js";
import { kept, offerUndo } from "../../core/restore/timeTravel.js";

/** How much of the note a question shows. */
const EXCERPT = 600;

export function dmailCommands(bench: Workbench): Handlers {
  return {
    // From the message that a note has been left there is one way on.
    deliverDMail: (given) => (given === "deliver" ? deliver(bench) : choose(bench)),
  };
}

async function choose(bench: Workbench): Promise<void> {
  const { message } = waiting(bench);
  const items = [
    { label: `$(mail) ${vscode.l10n.t("Deliver…")}`, run: deliver },
    { label: `$(trash) ${vscode.l10n.t("Drop…")}`, run: drop },
  ];
  await (await vscode.window.showQuickPick(items, { title: vscode.l10n.t("D-Mail"), placeHolder: oneLine(message, EXCERPT) }))?.run(bench);
}

async function deliver(bench: Workbench): Promise<void> {
  const { session, message } = waiting(bench);
  const ask = (plan: DeliverDMailResult): Question => ({
    message: vscode.l10n.t("Deliver the D-Mail?"),
    detail: `${vscode.l10n.t("The session goes back to the checkpoint it is for; {0} go, and the note stands there.", amountReplaced(plan))}\n\n${kept()}\n\n${oneLine(message, EXCERPT)}`,
    button: vscode.l10n.t("Deliver"),
  });
  const changed = await bench.changes.make(session, "context/deliverDMail", {}, ask, true);
  if (changed) {
    offerUndo(bench, session, changed.done, vscode.l10n.t("D-Mail delivered: {0} set aside.", amountReplaced(changed.done)) + changed.also);
  }
}

async function drop(bench: Workbench): Promise<void> {
  const { session, message } = waiting(bench);
  if (await confirm(vscode.l10n.t("Drop the D-Mail?"), vscode.l10n.t("It is not delivered, and not kept: {0}", oneLine(message, EXCERPT)), vscode.l10n.t("Drop"))) {
    await session.request("context/cancelDMail", {});
  }
}

function waiting(bench: Workbench): { readonly session: Session; readonly message: string } {
  const session = writableSession(bench.sessions);
  const { pendingDMail } = session.state;
  if (!pendingDMail) {
    throw thereIsNone(vscode.l10n.t("Deliver the D-Mail?"));
  }
  return { session, message: pendingDMail.message };
}
