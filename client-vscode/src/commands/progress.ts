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
