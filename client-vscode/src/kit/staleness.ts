/** Whether answers may lack what was committed last: no primary of the store's database answers, so a standby does. */

import * as vscode from "vscode";
import type { Methods } from "timeleap-client";
import type { Sidecar } from "../core/server/sidecar.js";
import { Disposables } from "../shared/lifecycle.js";

const known = new WeakMap<object, Staleness>();

/** Of what the server of this window has answered since this was asked for first. */
export function stalenessOf(sidecar: Pick<Sidecar, "onDidAnswer">): Staleness {
  const staleness = known.get(sidecar) ?? new Staleness();
  if (!known.has(sidecar)) {
    known.set(sidecar, staleness);
    sidecar.onDidAnswer(({ method, result }) => staleness.take(method, result));
  }
  return staleness;
}

/** Methods whose results can have the mark. What others answer says nothing: many are answered without the database. */
type Markable = { [M in keyof Methods]: Marked<keyof Methods[M]["result"]> extends true ? M : never }[keyof Methods];
type Marked<Member> = string extends Member ? false : "stale" extends Member ? true : false; // `rpc.discover` has any member

/** A record, so that the compiler finds one that is missing. */
const MARKABLE: Readonly<Record<Markable, true>> = {
  "session/open": true,
  "session/list": true,
  "session/latest": true,
  "session/getState": true,
  "session/fork": true,
  "session/listTrash": true,
  "session/listAudit": true,
  "session/reload": true,
  "session/verify": true,
  "session/search": true,
  "session/storage": true,
  "session/export": true,
  "session/import": true,
  "context/listUsage": true,
  "context/listCheckpoints": true,
  "context/getHistory": true,
  "context/getRecords": true,
  "context/listTimelines": true,
  "context/prepareCompaction": true,
  "context/search": true,
  "context/diff": true,
  "context/at": true,
};

export class Staleness extends Disposables {
  private readonly changed = this.register(new vscode.EventEmitter<boolean>());
  readonly onDidChange = this.changed.event;
  private stale = false;

  /** Of the last answer that can have the mark. */
  get present(): boolean {
    return this.stale;
  }

  /** Takes note of an answer. */
  take(method: keyof Methods, result: unknown): void {
    if (!(method in MARKABLE)) {
      return;
    }
    const stale = (result as { readonly stale?: unknown } | null)?.stale === true;
    if (stale !== this.stale) {
      this.stale = stale;
      this.changed.fire(stale);
    }
  }
}

export function staleInWords(): string {
  return vscode.l10n.t("When this was last read, no primary of the database answered: it may lack the newest changes.");
}
