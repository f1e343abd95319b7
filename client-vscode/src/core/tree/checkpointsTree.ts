/** The view of the shown session's live log. */

import type { Span } from "../sessions/log.js";
import type { Sessions } from "../sessions/sessions.js";
import { readSettings } from "../../shared/settings.js";
import { checkpointRows, type Setting } from "./checkpointNodes.js";
import type { TreeNode } from "./node.js";
import type { Contributions } from "./parts.js";
import { NodeTree } from "./tree.js";

export class CheckpointsTree extends NodeTree {
  private readonly setting: Setting;

  constructor(
    private readonly sessions: Sessions,
    /** Whether there is a server; resolves when the session to show, if any, is open. */
    private readonly ready: () => Promise<boolean>,
    private readonly added: Pick<Contributions, "rows" | "parts">,
  ) {
    super();
    this.setting = { parts: added.parts, refresh: () => this.refresh() };
  }

  get filtered(): boolean {
    return this.setting.only !== undefined;
  }

  /** Draws only these checkpoints of the shown session; undefined: all. */
  only(wanted: ((span: Span) => boolean) | undefined): void {
    this.setting.only = wanted;
    this.refresh();
  }

  override restart(): void {
    this.setting.only = undefined;
    super.restart();
  }

  protected async roots(): Promise<TreeNode[]> {
    const session = (await this.ready()) ? this.sessions.shown : undefined;
    if (!session) {
      return this.added.rows.flatMap((source) => source.instead?.() ?? []);
    }
    const rows = await checkpointRows(undefined, session, session.log, this.setting);
    if (readSettings().order === "oldestFirst") {
      rows.reverse();
    }
    const waiting = await Promise.all(this.added.rows.map((source) => source.rows?.(session) ?? Promise.resolve([])));
    return [...waiting.flat(), ...rows];
  }
}
