/** Rows of messages and calls below checkpoints. */

import * as vscode from "vscode";
import type { Feature } from "../../core/core.js";
import type { RowPart } from "../../core/tree/parts.js";
import { messageRows, type Shown } from "../../kit/messageNodes.js";

export const messages: Feature = ({ views }) => {
  views.added.parts.push(messagesOfRows());
  return new vscode.Disposable(() => undefined);
};

export function messagesOfRows(): RowPart {
  const shown: Shown = new Map();
  return { messages: (parent, place, range, refresh) => messageRows(parent, place, range, shown, refresh) };
}
