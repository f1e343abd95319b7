/** The view of the shown session's live log. */

import type { Session } from "../sessions/session.js";
import type { Sessions } from "../sessions/sessions.js";
import { readSettings } from "../../shared/settings.js";
import { CheckpointNode, checkpointRows, type Setting } from "./checkpointNodes.js";
import type { TreeNode } from "./node.js";
import type { Aside, Contributions } from "./parts.js";
import { NodeTree } from "./tree.js";

/** Rows on either side of one that was gone to. */
const REACH = 50;

export class CheckpointsTree extends NodeTree {
  /** What was set aside in the shown session, as far as it is known. */
  private asides: readonly Aside[] = [];
  private readonly setting: Setting;

  constructor(
    private readonly sessions: Sessions,
    /** Whether there is a server; resolves when the session to show, if any, is open. */
    private readonly ready: () => Promise<boolean>,
    private readonly added: Pick<Contributions, "rows" | "parts" | "asides">,
  ) {
    super();
    this.setting = { parts: added.parts, refresh: () => this.refresh() };
  }

  /** Draws what is near a checkpoint, however far back it is. Resolves with its row; undefined: it is not drawn now. */
  async near(uid: string): Promise<CheckpointNode | undefined> {
    this.setting.near = { uid, reach: REACH };
    await this.renew();
    const turns = (this.drawn ?? (await this.getChildren())).filter((row) => row instanceof CheckpointNode);
    return turns.flatMap((row) => [row, ...row.steps()]).find((row) => row instanceof CheckpointNode && row.span.checkpoint.uid === uid) as CheckpointNode | undefined;
  }

  get filtered(): boolean {
    return this.setting.only !== undefined;
  }

  /** Draws only the checkpoints after which one of these messages stands; undefined: all. */
  only(indexes: readonly number[] | undefined): void {
    this.setting.only = indexes;
    this.refresh();
  }

  override restart(): void {
    this.setting.near = undefined;
    this.setting.only = undefined;
    this.asides = [];
    super.restart();
  }

  protected async roots(): Promise<TreeNode[]> {
    const session = (await this.ready()) ? this.sessions.shown : undefined;
    if (!session) {
      return this.added.rows.flatMap((source) => source.instead?.() ?? []);
    }
    const rows = await checkpointRows(undefined, session, session.log, this.setting, { asides: this.asides });
    void this.look(session);
    const more = this.asides.length > 0 ? this.added.asides?.more(session, () => this.refresh()) : undefined;
    if (more) {
      rows.push(more);
    }
    if (readSettings().order === "oldestFirst") {
      rows.reverse();
    }
    const waiting = await Promise.all(this.added.rows.map((source) => source.rows?.(session) ?? Promise.resolve([])));
    return [...waiting.flat(), ...rows];
  }

  /** Asks what was set aside, after the rows: each is compared with the present. What is found is drawn. */
  private async look(session: Session): Promise<void> {
    const found = (await this.added.asides?.of(session).catch(() => this.asides)) ?? []; // what is wrong shows itself at the next thing somebody asks for
    if (session === this.sessions.shown && looksOf(found) !== looksOf(this.asides)) {
      this.asides = found;
      this.refresh();
    }
  }
}

function looksOf(asides: readonly Aside[]): string {
  return JSON.stringify(asides.map(({ looks }) => looks));
}
