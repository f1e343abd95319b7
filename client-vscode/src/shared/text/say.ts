/** Messages to the user. */

import * as vscode from "vscode";

/**
 * The editor makes `[text](command:...)` in a notification, above a tree or under an input a link that runs a command: titles, labels and what the
 * server says come from outside and are text only.
 */
export function withoutLinks(text: string): string {
  return text.replaceAll("](", "] (");
}

/** Resolves with the button that was chosen. */
export function sayInformation(message: string, ...buttons: readonly string[]): Thenable<string | undefined> {
  return vscode.window.showInformationMessage(withoutLinks(message), ...buttons);
}

/** Notifications of ours that nobody has closed, and the one that is being put in the place of the one before. */
let open = 0;
let placing: Promise<unknown> = Promise.resolve();

/** The same in the place of what was said so before: the newest is the only one on the screen, the others are in the list behind the bell. */
export async function sayInPlace(message: string, ...buttons: readonly string[]): Promise<string | undefined> {
  const placed = placing.then(async () => {
    if (open > 0) {
      await vscode.commands.executeCommand("notifications.hideToasts");
    }
    open += 1;
    return { answer: sayInformation(message, ...buttons) }; // wrapped: the next one does not wait for an answer
  });
  placing = placed.catch(() => undefined);
  const { answer } = await placed;
  try {
    return await answer;
  } finally {
    open -= 1;
  }
}

export function sayWarning(message: string, ...buttons: readonly string[]): Thenable<string | undefined> {
  return vscode.window.showWarningMessage(withoutLinks(message), ...buttons);
}

export function sayError(message: string, ...buttons: readonly string[]): Thenable<string | undefined> {
  return vscode.window.showErrorMessage(withoutLinks(message), ...buttons);
}

/** What comes from outside must not turn into icons where the editor draws them: in lists to choose from, and in the status bar. */
export function withoutIcons(text: string): string {
  return text.replace(/\$\([\w-]+(~\w+)?\)/gu, "\\$&");
}
