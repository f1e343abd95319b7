/** An agent whose conversation outlives it: the Timeleap views show it, and a person can take it back in time. */

import * as vscode from "vscode";
// In an extension of your own: copy that file, and install `timeleap-client` for the types it names.
import type { Message, TimeleapApi } from "../../../client-vscode/src/apiTypes.js";

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const timeleap = await vscode.extensions.getExtension<TimeleapApi>("timeleap.timeleap")?.activate();
  if (!timeleap) {
    return;
  }
  context.subscriptions.push(
    vscode.commands.registerCommand("sampleAgent.ask", async () => {
      // The same id is the same conversation, also after a restart. Each turn begins with a checkpoint.
      const session = await timeleap.openSession({ sessionId: "sample-agent", title: "Sample agent", autoCheckpoint: "turn" });
      const question = await vscode.window.showInputBox({ prompt: "What do you want to know?" });
      if (question === undefined) {
        return;
      }
      await session.append({ role: "user", content: question });
      const conversation: Message[] = [];
      for await (const { message } of session.history()) {
        conversation.push(message);
      }
      await session.append({ role: "assistant", content: await think(conversation) });
    }),
  );
}

/** Where a real agent asks its model. This one knows how much was said, so one can see that it remembers. */
function think(conversation: readonly Message[]): Promise<string> {
  const asked = conversation.filter(({ role }) => role === "user");
  return Promise.resolve(`That was question ${asked.length}; you said: ${String(asked.at(-1)?.content)}`);
}
