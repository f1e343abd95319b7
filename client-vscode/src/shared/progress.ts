/** Work under a notification that can be cancelled. */

import * as vscode from "vscode";
import type { RequestOptions } from "timeleap-client";

export interface Work {
  readonly token: vscode.CancellationToken;
  /** Of its requests: Cancel reaches the server, and what the server says of its progress the notification. */
  readonly options: RequestOptions;
}

export function withProgress<T>(title: string, work: (work: Work) => Promise<T>): Promise<T> {
  const notification = { location: vscode.ProgressLocation.Notification, title, cancellable: true };
  return Promise.resolve(
    vscode.window.withProgress(notification, (progress, token) => {
      const abort = new AbortController();
      const cancelling = token.onCancellationRequested(() => abort.abort());
      const onProgress: RequestOptions["onProgress"] = ({ message }) => {
        if (message !== undefined) {
          progress.report({ message });
        }
      };
      return work({ token, options: { signal: abort.signal, onProgress } }).finally(() => void cancelling.dispose());
    }),
  );
}

/** Milliseconds after which work that takes its time shows that it goes on, and can be cancelled. */
const LATE = 1_000;

/** The same for work that is done at once as a rule: a notification that only flashes tells nobody anything. */
export async function withLateProgress<T>(title: string, work: (work: Pick<Work, "options">) => Promise<T>): Promise<T> {
  const abort = new AbortController();
  let message: string | undefined;
  let say = (text: string): void => void (message = text);
  const onProgress: RequestOptions["onProgress"] = (value) => {
    if (value.message !== undefined) {
      say(value.message);
    }
  };
  const done = work({ options: { signal: abort.signal, onProgress } });
  const timer = setTimeout(() => {
    const notification = { location: vscode.ProgressLocation.Notification, title, cancellable: true };
    void vscode.window.withProgress(notification, (progress, token) => {
      const cancelling = token.onCancellationRequested(() => abort.abort());
      say = (text) => progress.report({ message: text });
      if (message !== undefined) {
        say(message);
      }
      const ended = (): void => void cancelling.dispose();
      return done.then(ended, ended);
    });
  }, LATE);
  try {
    return await done;
  } finally {
    clearTimeout(timer);
  }
}
