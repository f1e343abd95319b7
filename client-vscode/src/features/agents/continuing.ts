/** Going on from an earlier place of another program's conversation: in that program, since the copy here is read-only. */

import * as vscode from "vscode";
import type { RevertPlace } from "../../core/restore/changes.js";
import type { Session } from "../../core/sessions/session.js";
import { carryOut, chooseRestoring, forecast } from "../../kit/restoring.js";
import { requireTrust } from "../../core/commands/targets.js";

/**
 * Makes a new conversation of the program with everything before a place, and opens it in a terminal. The present conversation stays
 * as it is; files go back with it if that is chosen.
 *
 * @param program Name of the program.
 * @param place The first checkpoint or message that is left out.
 * @param name Name of that place.
 * @returns Whether the program was opened.
 */
export async function continueElsewhere(session: Session, program: string, place: RevertPlace, name: string): Promise<boolean> {
  requireTrust();
  const forecasted = await forecast(session, "context/revertTo", place);
  const restoring = await chooseRestoring(
    {
      message: vscode.l10n.t("Continue in {0} from before “{1}”?", program, name),
      detail: vscode.l10n.t("{0} gets a new conversation with everything before this, and it opens in a terminal. The present conversation stays as it is.", program),
      button: vscode.l10n.t("Continue"),
      filesOnly: true,
    },
    forecasted,
  );
  if (!restoring) {
    return false;
  }
  if (restoring.restore !== "conversation") {
    await carryOut(session, "context/revertTo", { ...place, expectedHead: forecasted.plan.head }, { ...restoring, restore: "files" });
  }
  if (restoring.restore === "files") {
    return false;
  }
  const { resume } = await session.request("bridge/adopt", { at: "messageIndex" in place ? place.messageIndex : place.checkpointUid });
  const { command, args, cwd } = resume;
  vscode.window.createTerminal({ name: program, shellPath: command, shellArgs: args, ...(cwd === undefined ? {} : { cwd }) }).show();
  return true;
}
