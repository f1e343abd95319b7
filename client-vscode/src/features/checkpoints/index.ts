/** Places in a conversation that a person names. */

import * as vscode from "vscode";
import { writableSession } from "../../core/commands/targets.js";
import type { Feature } from "../../core/core.js";
import { titleOf } from "../../shared/text/titles.js";

export const checkpoints: Feature = (core) =>
  core.commands({
    createCheckpoint: async () => {
      const session = writableSession(core.sessions);
      const label = await vscode.window.showInputBox({ title: titleOf("createCheckpoint"), prompt: vscode.l10n.t("Name; it may be empty") });
      if (label !== undefined) {
        await session.request("context/checkpoint", label.trim() === "" ? {} : { label: label.trim() });
      }
    },
  });
