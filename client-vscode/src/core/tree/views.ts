/** The view of the activity bar, kept in step with the server and the shown session. */

import * as vscode from "vscode";
import { Disposables } from "../../shared/lifecycle.js";
import type { Session } from "../sessions/session.js";
import type { Sessions } from "../sessions/sessions.js";
import type { Sidecar } from "../server/sidecar.js";
import { exact } from "../../shared/text/format.js";
import { withoutLinks } from "../../shared/text/say.js";
import { CheckpointsTree } from "./checkpointsTree.js";
import { ContextKeys, contextKeys } from "./context.js";
import type { TreeNode } from "./node.js";
import type { Contributions } from "./parts.js";

/** The texts above the rows. VS Code's types do not say that it may be taken away by `undefined`. */
interface Headed {
  message?: string | undefined;
  title?: string;
  badge?: vscode.ViewBadge | undefined;
}

/** Sets what is another one: a message counts as a change of the rows, and the editor waits 200 ms after each for more of them. */
function head(view: Headed, wanted: Headed): void {
  for (const name of Object.keys(wanted) as (keyof Headed)[]) {
    if (JSON.stringify(view[name]) !== JSON.stringify(wanted[name])) {
      (view as Record<string, unknown>)[name] = wanted[name];
    }
  }
}

export class Views extends Disposables {
  readonly checkpoints: vscode.TreeView<TreeNode>;
  readonly tree: CheckpointsTree;
  /** Lines, rows and parts of features. */
  readonly added: Contributions = { lines: [], rows: [], parts: [] };
  private readonly keys = new ContextKeys();
  private followed: Session | undefined;

  constructor(
    private readonly sidecar: Sidecar,
    private readonly sessions: Sessions,
  ) {
    super();
    this.tree = this.register(new CheckpointsTree(sessions, () => this.ready(), this.added));
    this.checkpoints = this.register(vscode.window.createTreeView("timeleap.checkpoints", { treeDataProvider: this.tree, canSelectMany: true }));
    this.tree.follow(this.checkpoints);
    this.listen();
    this.describe();
  }

  /** Asks for everything again. */
  async refresh(): Promise<void> {
    await this.sessions.shown?.refresh();
    this.redraw();
  }

  /** Whether there is a server; by then the session to show, if any, is open. While the server is started again the rows stay as they are. */
  private async ready(): Promise<boolean> {
    try {
      if (this.sidecar.state.kind !== "restarting") {
        await this.sidecar.started();
      }
    } catch {
      return false;
    }
    await this.sessions.openFirst().catch(() => undefined);
    return true;
  }

  private listen(): void {
    this.register(this.sidecar.onDidChangeState(() => this.redraw()));
    this.register(this.sessions.followShown((session) => this.follow(session)));
    // Where none is shown there may be one now.
    this.register(this.sessions.onDidChangeList(() => !this.sessions.shown && this.tree.refresh()));
    this.register(
      vscode.workspace.onDidChangeConfiguration((change) => {
        if (change.affectsConfiguration("timeleap.order")) {
          this.tree.refresh();
        }
      }),
    );
    this.register(vscode.workspace.onDidGrantWorkspaceTrust(() => this.describe()));
  }

  private follow(session: Session | undefined): vscode.Disposable | undefined {
    if (session === this.followed) {
      this.redraw();
    } else {
      this.followed = session;
      this.tree.restart();
      this.describe();
    }
    return session?.onDidChange(() => this.redraw());
  }

  /** Shows a change soon. */
  redraw(): void {
    this.tree.refresh();
    this.describe();
  }

  /** Says again what stands around the rows. */
  describe(): void {
    const { shown } = this.sessions;
    this.keys.update(contextKeys(this.sidecar.state, this.sessions, vscode.workspace.isTrusted));
    const said = withoutLinks(this.added.lines.map((line) => line()).filter(Boolean).join("\n")) || undefined;
    // Where there is a message VS Code shows no welcome view, which is the way to a server.
    const { state } = this.sidecar;
    const welcomed = state.kind === "failed" && state.failure.kind === "noServer";
    const waiting = this.added.rows.reduce((sum, source) => sum + (source.waiting?.() ?? 0), 0);
    head(this.checkpoints, {
      message: welcomed ? undefined : said,
      title: shown?.name ?? vscode.l10n.t("Checkpoints"),
      badge: waiting === 0 ? undefined : { value: waiting, tooltip: vscode.l10n.t("Waiting for your decision: {0}", exact(waiting)) },
    });
  }
}
