/** An agent whose conversation outlives it: the Timeleap view shows it, and a person can take it back in time. */

import * as vscode from "vscode";
// In an extension of your own: copy that file, and install `timeleap-client` for the types it names.
import type { Message, TimeleapApi, TimeleapSession } from "../../../client-vscode/src/features/api/apiTypes.js";

const SESSION = "sample-agent";

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const timeleap = await vscode.extensions.getExtension<TimeleapApi>("timeleap.timeleap")?.activate();
  if (!timeleap) {
    return;
  }
  const ask = async (value = ""): Promise<void> => {
    // The same id is the same conversation, also after a restart. Each turn begins with a checkpoint.
    const session = await timeleap.openSession({ sessionId: SESSION, title: "Sample agent", autoCheckpoint: "turn" });
    const question = await vscode.window.showInputBox({ prompt: "What do you want to know?", value });
    if (question !== undefined) {
      await untilTakenBack(session, (signal) => turn(session, question, signal));
    }
  };
  context.subscriptions.push(
    vscode.commands.registerCommand("sampleAgent.ask", () => ask()),
    // "Edit and Go Again" on a prompt of this conversation: it is taken at once, and sent when the person has changed it.
    timeleap.registerPromptHandler(({ session, text }) => {
      if (session.id !== SESSION) {
        return false;
      }
      void ask(text);
      return true;
    }),
  );
}

/** A person who takes the conversation back waits until the turn has stopped: it adds nothing to the past they go back to. */
async function untilTakenBack(session: TimeleapSession, work: (signal: AbortSignal) => Promise<void>): Promise<void> {
  const stop = new AbortController();
  const working = work(stop.signal).catch((error: unknown) => {
    if (!stop.signal.aborted) {
      throw error;
    }
  });
  const listening = session.onWillRevert(({ waitUntil }) => {
    stop.abort();
    waitUntil(working);
  });
  await working.finally(() => listening.dispose());
}

async function turn(session: TimeleapSession, question: string, signal: AbortSignal): Promise<void> {
  await session.append({ role: "user", content: question });
  for (;;) {
    const conversation: Message[] = [];
    for await (const { message } of session.history()) {
      conversation.push(message);
    }
    const reply = await think(conversation);
    signal.throwIfAborted();
    await session.append(reply);
    if (!reply.tool_calls) {
      return;
    }
    await session.append(...(await Promise.all(reply.tool_calls.map((call) => act(session, call, signal)))));
  }
}

type ToolCall = NonNullable<Message["tool_calls"]>[number];

/** Asks first: any window of the session may answer, or its approvals do. What a person rejects, the model is told. */
async function act(session: TimeleapSession, { id, function: { arguments: given } }: ToolCall, signal: AbortSignal): Promise<Message> {
  const { command } = JSON.parse(given ?? "{}") as { command: string };
  const { decision, reason } = await session.requestApproval("run command", { description: command, toolCallId: id, signal });
  if (decision === "reject") {
    return { role: "tool", tool_call_id: id, content: `The person did not allow it: ${reason ?? "no reason given"}` };
  }
  await vscode.commands.executeCommand(command);
  return { role: "tool", tool_call_id: id, content: "done" };
}

/**
 * Where a real agent asks its model. This one knows how much was said, so one can see that it remembers; asked to "run" a command
 * of VS Code, it does.
 */
function think(conversation: readonly Message[]): Promise<Message> {
  const asked = conversation.filter(({ role }) => role === "user");
  const said = String(asked.at(-1)?.content);
  const last = conversation.at(-1);
  const command = /^run (\S+)$/.exec(said)?.[1];
  if (command !== undefined && last?.role === "user") {
    const call: ToolCall = { id: `call-${asked.length}`, type: "function", function: { name: "run_command", arguments: JSON.stringify({ command }) } };
    return Promise.resolve({ role: "assistant", content: "", tool_calls: [call] });
  }
  const content = last?.role === "tool" ? `It said: ${String(last.content)}` : `That was question ${asked.length}; you said: ${said}`;
  return Promise.resolve({ role: "assistant", content });
}
