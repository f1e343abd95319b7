/** The three views of the activity bar, kept in step with the server and the shown session. */

import * as vscode from "vscode";
import { Disposables } from "../../shared/lifecycle.js";
import type { Session } from "../sessions/session.js";
import type { Sessions } from "../sessions/sessions.js";
import type { Sidecar } from "../server/sidecar.js";
import { readSettings } from "../../shared/settings.js";
import { exact, messages } from "../../shared/text/format.js";
import { withoutLinks } from "../../shared/text/say.js";
import { CheckpointsTree, type RowSource } from "./checkpointsTree.js";
import { ContextKeys, contextKeys } from "./context.js";
import type { TreeNode } from "./node.js";
import { SessionsTree } from "./sessionsTree.js";
import { TimelinesTree } from "./timelinesTree.js";
import type { NodeTree } from "./tree.js";
import { serverMessage, viewMessage } from "./viewMessage.js";

/** Ages on rows ("3 min. ago") are drawn again this often, while somebody looks; milliseconds. Nothing is asked for. */
const REDRAW = 60_000;

/** Milliseconds that the list of sessions waits for the shown one: its owner may hang. */
const YIELD = 300;

/** What stands above the rows. VS Code's types do not say that it may be taken away by `undefined`. */
interface Headed {
  message?: string | undefined;
  description?: string | undefined;
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

/** Words that are looked for, and the messages of the session in which they stand. */
export interface Filter {
  readonly session: Session;
  readonly query: string;
  readonly indexes: readonly number[];
}

export class Views extends Disposables {
  readonly checkpoints: vscode.TreeView<TreeNode>;
  readonly timelines: vscode.TreeView<TreeNode>;
  readonly sessionList: vscode.TreeView<TreeNode>;
  private readonly trees: { checkpoints: CheckpointsTree; timelines: TimelinesTree; sessions: SessionsTree };
  private readonly sources: RowSource[] = [];
  private filtering: Filter | undefined;
  private comparing = false;
  /** Of the session that is shown first, with its first page of checkpoints. */
  private opening: Promise<unknown> = Promise.resolve();
  private readonly keys = new ContextKeys();
  private followed: Session | undefined;
  /** When the server was last started again; that is news for a while. */
  private recovered: Date | undefined;

  constructor(
    private readonly sidecar: Sidecar,
    private readonly sessions: Sessions,
  ) {
    super();
    const session = (): Promise<boolean> => this.firstSession();
    this.trees = {
      checkpoints: this.register(new CheckpointsTree(sessions, session, this.sources)),
      timelines: this.register(new TimelinesTree(sessions, session)),
      sessions: this.register(new SessionsTree(sessions, sidecar, () => this.serverAtLeisure())),
    };
    this.checkpoints = this.view("timeleap.checkpoints", this.trees.checkpoints);
    this.timelines = this.view("timeleap.timelines", this.trees.timelines);
    this.sessionList = this.view("timeleap.sessions", this.trees.sessions);
    this.listen();
    const redraw = setInterval(() => {
      if (this.recovered && Date.now() - this.recovered.getTime() >= REDRAW) {
        this.recovered = undefined;
      }
      if (this.sessions.shown) {
        this.redraw();
      }
    }, REDRAW);
    this.register(new vscode.Disposable(() => clearInterval(redraw)));
    this.describe();
  }

  /** Puts rows above the checkpoints. */
  addRows(source: RowSource): void {
    this.sources.push(source);
    if (source.onDidChange) {
      this.register(source.onDidChange(() => this.redraw()));
    }
  }

  /** Asks for everything again. */
  async refresh(): Promise<void> {
    this.trees.sessions.reload();
    await this.sessions.shown?.refresh();
    this.redraw();
  }

  /** Something can be compared with from now on. */
  selectedForCompare(): void {
    this.comparing = true;
    this.describe();
  }

  /** What the checkpoints are filtered by; undefined: all are shown. */
  get filtered(): Filter | undefined {
    return this.filtering?.session === this.sessions.shown ? this.filtering : undefined;
  }

  /** Shows only the checkpoints after which something stands; of a long session all are read for it. */
  filter(by: Filter | undefined): void {
    this.filtering = by;
    if (!by) {
      this.trees.checkpoints.only(undefined);
      this.describe();
      return;
    }
    const oldest = by.indexes.reduce((least, index) => Math.min(least, index), Infinity);
    void by.session.log.find(({ start }) => start <= oldest).then(() => {
      if (this.filtered === by) {
        this.trees.checkpoints.only(by.indexes);
        this.describe();
      }
    });
  }

  /** Selects a checkpoint of the shown session, however far back it is. */
  async goTo(session: Session, where: { readonly uid: string } | { readonly index: number } | { readonly oldest: true }): Promise<void> {
    this.filter(undefined);
    const { log } = session;
    const span = await log.find((one) => ("uid" in where ? one.checkpoint.uid === where.uid : "index" in where && one.start <= where.index));
    const target = span ?? ("uid" in where ? undefined : (await log.spans()).at(-1));
    const row = target && session === this.sessions.shown ? await this.trees.checkpoints.near(target.checkpoint.uid) : undefined;
    if (!row) {
      throw new Error(vscode.l10n.t("That checkpoint is not in the present conversation."));
    }
    await this.checkpoints.reveal(row, { select: true, focus: true });
  }

  private view(id: string, tree: NodeTree): vscode.TreeView<TreeNode> {
    const view = this.register(vscode.window.createTreeView(id, { treeDataProvider: tree, showCollapseAll: true, canSelectMany: id === "timeleap.checkpoints" }));
    tree.follow(view);
    return view;
  }

  /** While the server is started again the rows stay as they are. */
  private async hasServer(): Promise<boolean> {
    if (this.sidecar.state.kind === "restarting") {
      return true;
    }
    return this.sidecar.started().then(
      () => true,
      () => false,
    );
  }

  private firstSession(): Promise<boolean> {
    const opening = this.hasServer().then(async (server) => {
      if (server) {
        await this.sessions.openFirst(readSettings().openNewest).catch(() => undefined);
      }
      return server;
    });
    this.opening = opening.then(() => this.sessions.shown?.log.spans()).catch(() => undefined);
    return opening;
  }

  /** As `hasServer`, once what is shown is there: what could be shown would take the server's time from it. */
  private async serverAtLeisure(): Promise<boolean> {
    const server = await this.hasServer();
    await Promise.race([this.opening, new Promise((resolve) => setTimeout(resolve, YIELD))]);
    return server;
  }

  private listen(): void {
    let before = this.sidecar.state.kind;
    this.register(
      this.sidecar.onDidChangeState((state) => {
        this.recovered = state.kind === "ready" && before === "restarting" ? new Date() : undefined;
        before = state.kind;
        this.trees.sessions.reload();
        this.redraw();
      }),
    );
    // What was read from a standby is read again, before the line that says so is gone for long.
    this.register(this.sidecar.staleness.onDidChange((stale) => (stale ? this.describe() : void this.refresh().catch(() => this.describe()))));
    this.register(this.sessions.followShown((session) => this.follow(session)));
    this.register(
      this.sessions.onDidChangeList(() => {
        this.trees.sessions.reload();
        if (!this.sessions.shown) {
          this.trees.checkpoints.refresh(); // there may be one to show now
        }
      }),
    );
    this.register(
      this.sessionList.onDidChangeVisibility(({ visible }) => {
        if (visible) {
          this.lookAgain();
        }
      }),
    );
    this.register(
      vscode.window.onDidChangeWindowState(({ focused }) => {
        if (focused && this.sessionList.visible) {
          this.lookAgain();
        }
      }),
    );
    this.register(
      vscode.workspace.onDidChangeConfiguration((change) => {
        if (change.affectsConfiguration("timeleap.order")) {
          this.trees.checkpoints.refresh();
        }
      }),
    );
    this.register(vscode.workspace.onDidGrantWorkspaceTrust(() => this.describe()));
  }

  /** Sessions that are not open are not notified of; who comes back to the list is shown the present one. */
  private lookAgain(): void {
    if (this.sidecar.state.kind === "ready") {
      this.sessions.listMayHaveChanged();
    }
  }

  private follow(session: Session | undefined): vscode.Disposable | undefined {
    if (session === this.followed) {
      this.redraw();
    } else {
      this.followed = session;
      this.trees.checkpoints.restart();
      this.trees.timelines.restart();
      this.describe();
    }
    this.trees.sessions.refresh();
    return session?.onDidChange(() => this.redraw());
  }

  private redraw(): void {
    this.trees.checkpoints.refresh();
    this.trees.timelines.refresh();
    this.trees.sessions.refresh(); // which has the shown session's numbers
    this.describe();
  }

  private describe(): void {
    const { shown } = this.sessions;
    this.keys.update(contextKeys(this.sidecar.state, this.sessions, vscode.workspace.isTrusted));
    const situation = { server: this.sidecar.state, recovered: this.recovered, stale: this.sidecar.staleness.present, sessions: this.sessions };
    const { filtered } = this;
    this.keys.update({ "timeleap.filtered": filtered !== undefined, "timeleap.compareSelected": this.comparing });
    const only = filtered ? vscode.l10n.t("Only checkpoints with “{0}”: {1} found.", filtered.query, messages(filtered.indexes.length)) : "";
    const said = withoutLinks([only, viewMessage(situation) ?? ""].filter(Boolean).join("\n")) || undefined;
    // Where there is a message VS Code shows no welcome view, which has the next steps as buttons.
    const failed = this.sidecar.state.kind === "failed";
    const welcomed = failed || this.sessions.problem !== undefined;
    const waiting = this.sources.reduce((sum, source) => sum + (source.waiting?.() ?? 0), 0);
    head(this.checkpoints, {
      message: welcomed ? undefined : said,
      description: welcomed ? said : shown?.name,
      badge: waiting === 0 ? undefined : { value: waiting, tooltip: vscode.l10n.t("Waiting for your decision: {0}", exact(waiting)) },
    });
    head(this.sessionList, { message: failed ? undefined : serverMessage(situation) });
  }
}
