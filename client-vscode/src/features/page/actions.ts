/** What is done at a message of the page. */

import * as vscode from "vscode";
import type { Checkpoint, HistoryMessage } from "timeleap-client";
import { checkpointBefore, fork, forkAtMessage } from "../../kit/forking.js";
import { promptsOf } from "../../kit/prompts.js";
import type { Workbench } from "../../core/commands/register.js";
import { Refusal } from "../../core/commands/report.js";
import { writableSession } from "../../core/commands/targets.js";
import { notPresent, restore, revert } from "../../core/restore/timeTravel.js";
import type { Session } from "../../core/sessions/session.js";
import { exact, oneLine } from "../../shared/text/format.js";
import { gistOf, textOf } from "../../shared/text/message.js";
import { checkpointName } from "../../shared/text/happened.js";
import { sayInformation } from "../../shared/text/say.js";
import { roleName } from "../../shared/text/roles.js";
import { messageAsJson, messageAsMarkdown } from "./copies.js";
import type { Action, FromPage } from "./wire.js";
import { verbOf } from "../../shared/text/titles.js";
import { headed } from "../../shared/text/detail.js";

/** The most a note is shown while it is written. */
const PREVIEW = 50;

/** The log that the page shows. */
export interface Shown {
  readonly session: Session;
  /** Absent: the live log. */
  readonly timeline?: string;
}

/** What was chosen at a message; a comparison is the page's own. */
export type Acted = Omit<Extract<FromPage, { kind: "act" }>, "action"> & { readonly action: Exclude<Action, "compare"> };

export async function act(bench: Workbench, shown: Shown, { action, index, selection }: Acted): Promise<void> {
  const { session } = shown;
  switch (action) {
    case "revert":
    case "again":
      return goBack(bench, shown, index, action);
    case "fork":
      return forkAtMessage(bench, present(shown), index);
    case "pin":
      return pin(session, selection?.trim() ? selection : textOf((await messageAt(shown, index)).message));
    case "note":
      return note(bench, present(shown), index);
    case "markdown":
    case "json":
      return copy(shown, index, action);
  }
}

export async function actAtCheckpoint(bench: Workbench, shown: Shown, action: "revert" | "fork", checkpoint: Checkpoint): Promise<void> {
  const session = present(shown);
  if (action === "revert") {
    await revert(bench, writable(session), { checkpointUid: checkpoint.uid }, checkpointName(checkpoint));
  } else {
    await fork(bench, session, headed(verbOf("fork"), checkpointName(checkpoint)), { checkpointUid: checkpoint.uid });
  }
}

export async function restoreShown(bench: Workbench, session: Session, timeline: string, name: string): Promise<void> {
  await restore(bench, writable(session), timeline, name);
}

async function pin(session: Session, text: string): Promise<void> {
  await vscode.commands.executeCommand("timeleap.managePins", { session: writable(session).id, text });
}

/** Undo and redo are of the shown session: what is done in a page is done to its session. */
export async function step(bench: Workbench, session: Session, direction: "undo" | "redo"): Promise<void> {
  ensureShown(bench, session);
  await vscode.commands.executeCommand(`timeleap.${direction}`);
}

function ensureShown({ sessions }: Workbench, session: Session): void {
  if (sessions.shown !== session) {
    sessions.show(session);
  }
}

async function goBack(bench: Workbench, shown: Shown, index: number, action: Action): Promise<void> {
  const session = writable(present(shown));
  const { message } = await messageAt(shown, index);
  const name = oneLine(gistOf(message), PREVIEW) || roleName(message.role);
  if (!(await revert(bench, session, { messageIndex: index }, name)) || action !== "again") {
    return;
  }
  const text = textOf(message);
  const checkpointUid = session.state.context.checkpoints.at(-1)?.uid;
  const prompt = { session, text, message, messageIndex: index, ...(checkpointUid === undefined ? {} : { checkpointUid }) };
  if (await promptsOf(bench).offer(prompt)) {
    return; // the agent shows it
  }
  await vscode.env.clipboard.writeText(text);
  void sayInformation(vscode.l10n.t("The prompt is in the clipboard: paste it to the agent, change it, and go again."));
}

/** Notes go to checkpoints: to the last one before the message. */
async function note(bench: Workbench, session: Session, index: number): Promise<void> {
  writable(session);
  const checkpoint = await checkpointBefore(session, index);
  if (!checkpoint) {
    throw new Refusal(vscode.l10n.t("No checkpoints"));
  }
  const message = await vscode.window.showInputBox({
    title: headed(vscode.l10n.t("Checkpoint {0}", `#${exact(checkpoint.id)}`), vscode.l10n.t("D-Mail")),
    prompt: vscode.l10n.t("It arrives there when it is delivered: the conversation goes back to the checkpoint, and the note stands in it."),
  });
  if (message !== undefined && message.trim() !== "") {
    await session.request("context/sendDMail", { checkpointUid: checkpoint.uid, message });
    const deliver = vscode.l10n.t("Deliver");
    if ((await sayInformation(vscode.l10n.t("D-Mail for “{0}”, not delivered yet", checkpointName(checkpoint)), deliver)) === deliver) {
      ensureShown(bench, session); // the command is about that one
      await vscode.commands.executeCommand("timeleap.deliverDMail", "deliver");
    }
  }
}

async function copy({ session, timeline }: Shown, index: number, as: "markdown" | "json"): Promise<void> {
  let reply = "";
  const of = timeline === undefined ? {} : { timelineId: timeline };
  const { messages } = await session.request("context/getHistory", { from: index, to: index + 1, limit: 1, ...of }, { onReply: (line) => (reply = line) });
  const [entry] = messages;
  if (entry?.index !== index) {
    throw gone();
  }
  await vscode.env.clipboard.writeText(as === "json" ? messageAsJson(reply) : messageAsMarkdown(index, entry.message, roleName));
}

export async function messageAt({ session, timeline }: Shown, index: number): Promise<HistoryMessage> {
  const of = timeline === undefined ? {} : { timelineId: timeline };
  const { messages } = await session.request("context/getHistory", { from: index, to: index + 1, limit: 1, ...of });
  const [entry] = messages;
  if (entry?.index !== index) {
    throw gone();
  }
  return entry;
}

function gone(): Refusal {
  return new Refusal(vscode.l10n.t("This has changed meanwhile, so nothing was done. The view is up to date now."));
}

function writable(session: Session): Session {
  return writableSession({ shown: session });
}

function present({ session, timeline }: Shown): Session {
  if (timeline !== undefined) {
    throw notPresent();
  }
  return session;
}
