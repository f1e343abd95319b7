/** One request of a caller: it lives until it is answered, over as many connections as that takes. */

import { RequestTimeoutError, TimeleapError } from "./errors.js";
import type { ProgressParams } from "./generated/types.js";

export type Params = { [member: string]: unknown };

/** How far a request is: the `value` of each `$/progress`. */
export type ProgressValue = ProgressParams["value"];

export interface RequestOptions {
  /** Milliseconds to wait for the answer since the last sign of work on it; 0: no limit. */
  readonly timeout?: number;
  /**
   * Asks the server to give the request up. It is then rejected as `cancelled`, or resolves with its real result. What
   * was not sent yet is not sent.
   */
  readonly signal?: AbortSignal;
  /** Told how far a long request is. */
  readonly onProgress?: (value: ProgressValue) => void;
  /** Given the reply as it came, one line of JSON, where the request succeeds: numbers too large for JavaScript are exact there. */
  readonly onReply?: (line: string) => void;
}

/** Who has a call at the moment: the queue, a pause before the next attempt, or a connection. */
export interface Holder {
  /** The caller has lost interest. */
  cancel(call: Call): void;
  /** The time of the call is over. */
  drop(call: Call): void;
  /** Whether the time has to wait, because the server waits for us. */
  readonly busy: boolean;
}

export class Call {
  /** Settles once. */
  readonly reply: Promise<unknown>;
  /** How often it was sent. */
  sends = 0;
  /** How many connections went away before they answered it. */
  losses = 0;
  /** Why the server did not take it the last time, where it said that it may later. */
  refusal: TimeleapError | undefined;
  /** How often it did not, and since when (`performance.now()`). */
  refusals = 0;
  refusedAt: number | undefined;
  holder: Holder | undefined;
  settled = false;
  /** The id of the request on the connection that has it. */
  id = 0;
  /** The params as they were when the call was made, whatever the caller does to them until they are sent (again). */
  readonly body: string;
  private readonly timer: NodeJS.Timeout | undefined;
  private succeed!: (result: unknown) => void;
  private fail!: (error: Error) => void;

  /**
   * @param number Calls are sent in the order of their numbers; 0: one of our own, which does not queue.
   * @param params With `onProgress` they must hold a `workDoneToken`.
   * @param repeatable Whether it may be sent again where it is not known whether it took effect.
   * @throws TypeError The params hold what JSON cannot say.
   */
  constructor(
    readonly number: number,
    readonly method: string,
    readonly params: Params,
    readonly options: RequestOptions,
    readonly repeatable: boolean,
  ) {
    this.body = JSON.stringify(params);
    this.reply = new Promise((resolve, reject) => {
      this.succeed = resolve;
      this.fail = reject;
    });
    const { timeout = 0, signal } = options;
    this.timer = timeout > 0 ? setTimeout(this.expire, timeout) : undefined;
    signal?.addEventListener("abort", this.abort, { once: true });
  }

  get aborted(): boolean {
    return this.options.signal?.aborted ?? false;
  }

  /** There was a sign of work on it: the time limit starts again. */
  stillAlive(): void {
    if (!this.settled) {
      this.timer?.refresh();
    }
  }

  resolve(result: unknown): void {
    this.settle();
    this.succeed(result);
  }

  reject(error: Error): void {
    this.settle();
    this.fail(error);
  }

  private settle(): void {
    this.settled = true;
    this.holder = undefined;
    clearTimeout(this.timer);
    this.options.signal?.removeEventListener("abort", this.abort);
  }

  private readonly abort = (): void => this.holder?.cancel(this);

  private readonly expire = (): void => {
    if (this.holder?.busy) {
      this.timer?.refresh();
      return;
    }
    this.holder?.drop(this);
    this.reject(this.refusal ?? new RequestTimeoutError(this.method, this.options.timeout ?? 0));
  };
}

/** The error of a call that is given up before anything was sent. */
export function cancelled(): TimeleapError {
  return TimeleapError.make("cancelled", "cancelled before it was sent");
}
