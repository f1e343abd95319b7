/** Going to a checkpoint, and showing only those after which something stands. */

import * as vscode from "vscode";
import type { Workbench } from "../../core/commands/register.js";
import type { Session } from "../../core/sessions/session.js";
import { MoreNode } from "../../core/tree/node.js";
import { reach } from "../../kit/reaching.js";
import { messages } from "../../shared/text/format.js";
import { Nearness } from "./nearness.js";

/** Words that are looked for, and the messages of the session in which they stand. */
interface Filter {
  readonly session: Session;
  readonly query: string;
  readonly indexes: readonly number[];
}

export class Filtering {
  private by: Filter | undefined;
  private readonly nearness = new Nearness();

  constructor(private readonly bench: Pick<Workbench, "views" | "sessions">) {
    const { added } = bench.views;
    added.parts.push(this.nearness);
    added.lines.push(() => {
      const { present } = this;
      return present && vscode.l10n.t("Only checkpoints with “{0}”: {1} found.", present.query, messages(present.indexes.length));
    });
    const all = new MoreNode(undefined, vscode.l10n.t("Show all checkpoints"), () => {
      this.end();
      return Promise.resolve();
    }, "all");
    added.rows.push({ rows: () => Promise.resolve(this.present ? [all] : []) });
  }

  /** The words; undefined: all checkpoints are shown. */
  get query(): string | undefined {
    return this.present?.query;
  }

  /** Of a long session all checkpoints are read for it. */
  async show(by: Filter): Promise<void> {
    this.by = by;
    const oldest = by.indexes.reduce((least, index) => Math.min(least, index), Infinity);
    await reach(by.session.log, ({ start }) => start <= oldest);
    if (this.by === by && by.session === this.bench.sessions.shown) {
      this.filter(by.indexes);
    }
  }

  end(): void {
    this.by = undefined;
    this.filter(undefined);
  }

  /** Selects a checkpoint of the shown session, however far back it is. */
  async goTo(session: Session, where: { readonly uid: string } | { readonly index: number } | { readonly oldest: true }): Promise<void> {
    this.end();
    const { views, sessions } = this.bench;
    const { log } = session;
    const span = await reach(log, (one) => ("uid" in where ? one.checkpoint.uid === where.uid : "index" in where && one.start <= where.index));
    const target = span ?? ("uid" in where ? undefined : (await log.spans()).at(-1));
    const row = target && session === sessions.shown ? await this.nearness.row(views.tree, session, target.checkpoint.uid) : undefined;
    if (!row) {
      throw new Error(vscode.l10n.t("This is not in the present conversation. Restore its branch first."));
    }
    await views.checkpoints.reveal(row, { select: true, focus: true });
  }

  private filter(indexes: readonly number[] | undefined): void {
    const { views } = this.bench;
    views.tree.only(indexes && (({ start, end }) => indexes.some((index) => index >= start && index < end)));
    views.describe();
  }

  private get present(): Filter | undefined {
    return this.bench.views.tree.filtered && this.by?.session === this.bench.sessions.shown ? this.by : undefined;
  }
}
