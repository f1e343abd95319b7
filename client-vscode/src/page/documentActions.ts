/** What can be done at a message of a document: the same as in the page, from the lenses above it or from a list. */

import * as vscode from "vscode";
import type { Handlers, Workbench } from "../commands/register.js";
import { Refusal } from "../commands/report.js";
import { actionsOf, DocumentPlace, indexAbove } from "../documents/lenses.js";
import { referenceOf } from "../documents/reference.js";
import { exact, oneLine } from "../text/format.js";
import { gistOf } from "../text/message.js";
import { roleName } from "../views/messageNodes.js";
import { act, messageAt } from "./actions.js";
import type { Action } from "./wire.js";
import { words } from "./words.js";

export function documentActionCommands(bench: Workbench): Handlers {
  return { messageActions: (node) => actAtPlace(bench, node) };
}

/** At the place of a lens, else at the message that the cursor is in. */
async function actAtPlace(bench: Workbench, node: unknown): Promise<void> {
  const place = node instanceof DocumentPlace ? node : placeOfCursor(bench);
  if (place?.index === undefined) {
    throw new Refusal(vscode.l10n.t("Put the cursor into a message of a conversation's document first."));
  }
  const { session, index, timelineId } = place;
  const shown = { session, ...(timelineId === undefined ? {} : { timeline: timelineId }) };
  const action = place.action ?? (await choose(place, index));
  if (action) {
    await act(bench, shown, { kind: "act", action, index });
  }
}

async function choose(place: DocumentPlace, index: number): Promise<Action | undefined> {
  const { session, timelineId } = place;
  const { message } = await messageAt({ session, ...(timelineId === undefined ? {} : { timeline: timelineId }) }, index);
  const texts = words();
  const items = actionsOf(place, message.role).map((action) => ({ label: texts[action], action }));
  const title = vscode.l10n.t("Message {0}, {1}", exact(index), roleName(message.role));
  return (await vscode.window.showQuickPick(items, { title, placeHolder: oneLine(gistOf(message), 80) }))?.action;
}

function placeOfCursor({ sessions }: Workbench): DocumentPlace | undefined {
  const editor = vscode.window.activeTextEditor;
  const reference = editor && referenceOf(editor.document.uri);
  const session = reference?.format === "md" ? sessions.get(reference.session) : undefined;
  const index = editor && session && indexAbove(editor.document, editor.selection.active.line);
  return session && index !== undefined ? new DocumentPlace(session, index, reference?.timeline) : undefined;
}
