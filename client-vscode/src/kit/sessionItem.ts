/** An item of the status bar about the session that is shown; without one it is hidden. */

import type * as vscode from "vscode";
import { Disposables } from "../shared/lifecycle.js";
import type { Session } from "../core/sessions/session.js";
import type { Sessions } from "../core/sessions/sessions.js";

export abstract class SessionItem extends Disposables {
  constructor(
    sessions: Pick<Sessions, "followShown">,
    protected readonly item: vscode.StatusBarItem,
  ) {
    super();
    this.register(item);
    this.register(sessions.followShown((session) => this.follow(session)));
  }

  protected abstract show(session: Session): void;

  protected follow(session: Session | undefined): vscode.Disposable | undefined {
    if (session) {
      this.show(session);
    } else {
      this.item.hide();
    }
    return session?.onDidChange(() => this.show(session));
  }
}
