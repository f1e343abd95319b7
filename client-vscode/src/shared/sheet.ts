/** Something to read above a conversation: what a compaction keeps, what an agent asks for. */

import * as vscode from "vscode";

export interface Sheet {
  readonly title: string;
  readonly blocks: readonly SheetBlock[];
}

export type SheetBlock =
  | { readonly kind: "list"; readonly title?: string; readonly items: readonly string[] }
  | { readonly kind: "table"; readonly head: readonly string[]; readonly rows: readonly (readonly string[])[] }
  /** As it is written. */
  | { readonly kind: "text"; readonly title?: string; readonly text: string }
  | { readonly kind: "markdown"; readonly title?: string; readonly text: string };

/** Has the page of a session show it. */
export async function showSheet(sessionId: string, sheet: Sheet): Promise<void> {
  await vscode.commands.executeCommand("timeleap.openConversation", { sessionId, sheet });
}
