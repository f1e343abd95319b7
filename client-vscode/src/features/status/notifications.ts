/** What the server says on its own that a person should hear of. */

import { existsSync } from "node:fs";
import { dirname } from "node:path";
import * as vscode from "vscode";
import type { ContextDidChange, Methods } from "timeleap-client";
import { Disposables } from "../../shared/lifecycle.js";
import type { Session } from "../../core/sessions/session.js";
import type { Sessions } from "../../core/sessions/sessions.js";
import type { Sidecar } from "../../core/server/sidecar.js";
import { OwnChanges } from "./ownChanges.js";
import { visible } from "../../shared/text/approval.js";
import { amount, amountReplaced, short, tokens } from "../../shared/text/format.js";
import { sayInformation, sayInPlace, sayWarning } from "../../shared/text/say.js";
import { rewriteInWords } from "../../shared/text/steps.js";
import { warningInWords } from "../../shared/text/warnings.js";
import { titleOf } from "../../shared/text/titles.js";

/** Milliseconds in which new session folders are noticed together. */
const GATHER = 300;

export class News extends Disposables {
  private watcher: vscode.Disposable | undefined;
  private watched = "";
  private gathering: NodeJS.Timeout | undefined;

  constructor(
    wire: Pick<Sidecar, "onNotification" | "onDidAnswer">,
    private readonly sessions: Sessions,
    private readonly log: vscode.LogOutputChannel,
    private readonly own = new OwnChanges(),
  ) {
    super();
    this.register(
      wire.onNotification("context/compactionSuggested", ({ sessionId, tokenCountWithPending, maxContextSize }) => {
        if (sessions.shown?.id === sessionId) {
          this.suggestCompaction(sessions.shown, tokenCountWithPending, maxContextSize);
        }
      }),
    );
    this.register(
      wire.onNotification("session/didRecover", ({ sessionId, cutBytes, quarantined }) => {
        const kept = quarantined.map(({ file }) => file).join(", ");
        log.warn(`${sessionId}: ${cutBytes} bytes of unfinished records were cut; kept in ${kept}`);
        this.say(vscode.l10n.t("“{0}”: {1}", nameOf(sessions, sessionId), warningInWords("recovered", "")));
      }),
    );
    this.register(
      wire.onNotification("session/warning", ({ sessionId, kind, message }) => {
        log.warn(`${sessionId}: ${kind}: ${message}`);
        if (sessions.shown?.id === sessionId) {
          this.say(vscode.l10n.t("“{0}”: {1}", nameOf(sessions, sessionId), warningInWords(kind, message)));
        }
      }),
    );
    this.register(sessions.followShown((session) => session?.onDidChangeContext((change) => this.tellOfOthers(session, change))));
    let last: Session | undefined;
    this.register(
      sessions.followShown((session) => {
        last = session ?? last;
        return undefined;
      }),
    );
    this.register(
      wire.onNotification("session/didChange", ({ kind, cause, sessionId }) => {
        if (kind === "deleted" && last?.id === sessionId && !this.own.has(cause.requestId)) {
          this.tellOfTrash(last);
        }
      }),
    );
    this.register(
      wire.onDidAnswer(({ method, result }) => {
        const [one] = method === "session/list" ? (result as Methods["session/list"]["result"]).sessions : [];
        if (one) {
          this.watch(dirname(one.path));
        }
      }),
    );
  }

  override dispose(): void {
    this.watcher?.dispose();
    clearTimeout(this.gathering);
    super.dispose();
  }

  private suggestCompaction(session: Session, used: number, size: number | undefined): void {
    const button = titleOf("compact");
    const count = size === undefined ? tokens(used) : `${short(used)} / ${tokens(size)}`;
    const message = vscode.l10n.t("The context of “{0}” is nearly full: {1}.", session.name, count);
    void sayInformation(message, button).then((chosen) => {
      if (chosen === button) {
        void vscode.commands.executeCommand("timeleap.compact");
      }
    });
  }

  /** That a conversation went back by somebody else's hand is not to be found out by what is missing. */
  private tellOfOthers(session: Session, change: ContextDidChange): void {
    if (this.own.has(change.cause.requestId) || !("removed" in change)) {
      return;
    }
    const { client } = change.cause;
    const by = client === undefined ? vscode.l10n.t("Another program") : client === "timeleap-vscode" ? vscode.l10n.t("Another window") : visible(client, 60);
    const message = rewriteInWords(change.kind, by, session.name, change.kind === "compacted" || change.kind === "folded" || change.kind === "dmailDelivered" ? amountReplaced(change) : amount(change));
    if (message !== undefined) {
      const undo = titleOf("undo");
      void sayInPlace(message, ...(session.writable ? [undo] : [])).then((chosen) => {
        if (chosen === undo && this.sessions.get(session.id) === session) {
          this.sessions.show(session); // another one may be shown by now
          void vscode.commands.executeCommand("timeleap.undo");
        }
      });
    }
  }

  private tellOfTrash({ name }: Session): void {
    const button = vscode.l10n.t("Take Out of the Trash");
    void sayInPlace(vscode.l10n.t("In the trash: {0}", name), button).then((chosen) => {
      if (chosen === button) {
        void vscode.commands.executeCommand("timeleap.undelete");
      }
    });
  }

  private say(message: string): void {
    const button = titleOf("showLogs");
    void sayWarning(message, button).then((chosen) => {
      if (chosen === button) {
        this.log.show();
      }
    });
  }

  /** Sessions that other programs make are not notified; that their folders appear is. */
  private watch(folder: string): void {
    if (folder === this.watched || !existsSync(folder)) {
      return;
    }
    this.watcher?.dispose();
    this.watched = folder;
    const watcher = vscode.workspace.createFileSystemWatcher(new vscode.RelativePattern(vscode.Uri.file(folder), "*"), false, true, false);
    const changed = (): void => {
      this.gathering ??= setTimeout(() => {
        this.gathering = undefined;
        this.sessions.listMayHaveChanged();
      }, GATHER);
    };
    watcher.onDidCreate(changed);
    watcher.onDidDelete(changed);
    this.watcher = watcher;
  }
}

function nameOf(sessions: Sessions, sessionId: string): string {
  return sessions.get(sessionId)?.name ?? sessionId;
}
