/** A conversation to try things on. */

import { join } from "node:path";
import * as vscode from "vscode";
import type { Core } from "../../core/core.js";
import { requireTrust } from "../../core/commands/targets.js";
import { isTimeleapError } from "../../shared/errors.js";
import type { Installation } from "./install.js";

const ID = "timeleap-sample";

/** Opens the sample, made anew where it was deleted; the server is installed first, after asking. */
export async function openSample(core: Core, installation: Installation): Promise<void> {
  requireTrust();
  if ((await installation.needed()) !== undefined && !(await installation.ask())) {
    return;
  }
  const path = join(core.context.extensionUri.fsPath, "dist", "sample", "context.jsonl");
  try {
    await core.sidecar.request("session/import", { path, sessionId: ID });
    await core.sidecar.request("session/setTitle", { sessionId: ID, title: vscode.l10n.t("Sample Conversation") });
  } catch (error) {
    if (!isTimeleapError(error, "sessionExists")) {
      throw error;
    }
  }
  await core.sessions.open({ sessionId: ID, create: false });
  await vscode.commands.executeCommand("timeleap.openConversation");
}
