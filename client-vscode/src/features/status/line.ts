/** The line above the rows, with what is news for a while: that the server was started again, or that a standby answers. */

import type { Core } from "../../core/core.js";
import { stalenessOf } from "../../kit/staleness.js";
import { Disposables } from "../../shared/lifecycle.js";
import { viewMessage } from "./viewMessage.js";

/** Milliseconds for which it is news that the server was started again. */
const NEWS = 60_000;

export class Line extends Disposables {
  private recovered: Date | undefined;
  private fading: NodeJS.Timeout | undefined;

  constructor({ sidecar, sessions, views }: Core) {
    super();
    const staleness = stalenessOf(sidecar);
    views.added.lines.push(() => viewMessage({ server: sidecar.state, recovered: this.recovered, stale: staleness.present, sessions }));
    let before = sidecar.state.kind;
    this.register(
      sidecar.onDidChangeState(({ kind }) => {
        this.recovered = kind === "ready" && before === "restarting" ? new Date() : undefined;
        before = kind;
        clearTimeout(this.fading);
        if (this.recovered) {
          views.describe();
          this.fading = setTimeout(() => {
            this.recovered = undefined;
            views.describe();
          }, NEWS);
        }
      }),
    );
    // What was read from a standby is read again, before the line that says so is gone for long.
    this.register(staleness.onDidChange((stale) => (stale ? views.describe() : void views.refresh().catch(() => views.describe()))));
  }

  override dispose(): void {
    clearTimeout(this.fading);
    super.dispose();
  }
}
