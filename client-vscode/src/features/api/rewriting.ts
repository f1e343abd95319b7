/** Telling others before this window takes a conversation back, so that an agent that is still running can stop first. */

import * as vscode from "vscode";
import type { Methods } from "timeleap-client";
import { Disposables } from "../../shared/lifecycle.js";

/** The changes that put another log in the place of the present one. */
const KINDS = {
  "context/revertTo": "revert",
  "context/restoreTimeline": "restore",
  "context/undo": "undo",
  "context/redo": "redo",
  "context/deliverDMail": "dmail",
  "context/clear": "clear",
} as const satisfies Partial<Record<keyof Methods, string>>;

export type RewriteKind = (typeof KINDS)[keyof typeof KINDS];

export interface WillRewrite {
  readonly kind: RewriteKind;
  readonly checkpointUid?: string;
  readonly messageIndex?: number;
  readonly timelineId?: string;
  readonly steps?: number;
  /** Only within the listener's own call. */
  readonly waitUntil: (work: Thenable<unknown>) => void;
}

/** Milliseconds that all listeners together get: a person who goes back must not wait for an agent that hangs. */
export const LISTENERS_TIMEOUT = 5_000;

const TARGETS = ["checkpointUid", "messageIndex", "timelineId", "steps"] as const satisfies readonly (keyof WillRewrite)[];

export class Rewriting extends Disposables {
  private readonly willRewrite = this.register(new vscode.EventEmitter<WillRewrite>());
  readonly onWillRewrite = this.willRewrite.event;

  constructor(private readonly timeout = LISTENERS_TIMEOUT) {
    super();
  }

  /**
   * Tells the listeners of a request that puts another log in place; what a listener fails with is not the person's concern.
   *
   * @returns undefined where nothing has to be waited for, so that the request keeps its place among those of the session
   */
  announce(method: string, params: object): Promise<void> | undefined {
    const kind = Object.hasOwn(KINDS, method) ? KINDS[method as keyof typeof KINDS] : undefined;
    const { dryRun, restore, ...given } = params as { readonly dryRun?: boolean; readonly restore?: string } & Partial<WillRewrite>;
    if (kind === undefined || dryRun === true || restore === "files") {
      return undefined;
    }
    const waiting: Promise<unknown>[] = [];
    let open = true;
    const target = Object.fromEntries(TARGETS.flatMap((name) => (given[name] === undefined ? [] : [[name, given[name]]])));
    this.willRewrite.fire({
      kind,
      ...target,
      waitUntil(work) {
        if (!open) {
          throw new Error("waitUntil can be called only while the listener is being called.");
        }
        waiting.push(Promise.resolve(work).catch(() => undefined));
      },
    });
    open = false;
    return waiting.length === 0 ? undefined : this.settled(waiting);
  }

  private async settled(waiting: readonly Promise<unknown>[]): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, this.timeout);
    });
    await Promise.race([Promise.all(waiting), late]);
    clearTimeout(timer);
  }
}
