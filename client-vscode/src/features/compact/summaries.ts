/** Summaries by a language model of the editor's chat, where there is one and the user allows it. */

import * as vscode from "vscode";
import type { Session } from "../../core/sessions/session.js";
import { textOf } from "../../shared/text/message.js";
import { titleOf } from "../../shared/text/titles.js";

/** Undefined: there is no model, or nothing to summarise; the server's own summariser is the next best. */
export async function summaryByModel(session: Session, instruction: string, token: vscode.CancellationToken): Promise<string | undefined> {
  const [model] = await vscode.lm.selectChatModels();
  if (!model) {
    return undefined;
  }
  const { systemPrompt, prompt } = await session.request("context/prepareCompaction", instruction === "" ? {} : { customInstruction: instruction });
  if (prompt === null) {
    return undefined;
  }
  // Chat models take no system message from an extension.
  const messages = [vscode.LanguageModelChatMessage.User(`${systemPrompt}\n\n${textOf(prompt)}`)];
  const answer = await model.sendRequest(messages, { justification: titleOf("compact") }, token);
  let summary = "";
  for await (const fragment of answer.text) {
    summary += fragment;
  }
  return summary.trim() === "" ? undefined : summary;
}
