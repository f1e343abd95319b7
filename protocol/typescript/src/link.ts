/**
 * A connection that comes back: it starts the server, and starts it again when it goes away.
 *
 * Requests that were not answered are sent again, in the order of their calls, once the sessions are open again. That
 * they take effect once is the server's promise for repeated request ids; that only such requests are repeated is ours.
 */

import { Call, cancelled, type Holder, type Params, type RequestOptions } from "./call.js";
import type { Connection, Handler, Host, Trace } from "./connection.js";
import { ClientClosedError, ConnectionLostError, type Exit, type TimeleapError } from "./errors.js";
import type { InitializeResult } from "./generated/types.js";
import type { ServerProcess } from "./server.js";
import { OpenSessions, type Opened } from "./sessions.js";
import { pauseBefore, Starter, type Reconnected, type Started, type StartSettings } from "./starting.js";

export type ClientState = "stopped" | "starting" | "running" | "restarting" | "gaveUp" | "disposed";

export interface LinkEvents {
  /** Every successful handshake, the first one included. */
  connected: InitializeResult;
  /** The server went away unasked. A restart is under way, unless `gaveUp` follows. */
  lost: ConnectionLostError;
  restarted: Reconnected;
  /** No further attempt is made until `restart()`; requests are rejected with this. */
  gaveUp: ConnectionLostError | TimeleapError;
  state: ClientState;
}

export interface LinkSettings extends StartSettings {
  /** How long to go on asking an owner of a session that does not answer, in ms, within the timeout of the request. */
  readonly patience: number;
  readonly trace: Trace | undefined;
  readonly log: (text: string) => void;
  readonly emit: <E extends keyof LinkEvents>(event: E, value: LinkEvents[E]) => void;
  readonly notified: (method: string, params: Params) => void;
}

const EXIT_GRACE = 10_000;
const DISPOSE_GRACE = 2_000;

export class Link implements Host, Holder {
  readonly handlers = new Map<string, Handler>();
  readonly sessions = new OpenSessions();
  readonly busy = false;
  private current: ClientState = "stopped";
  private connection: Connection | undefined;
  private announced: InitializeResult | undefined;
  /** Calls that wait for a connection. */
  private waiting: Call[] = [];
  /** Calls that wait for their session to be opened again. */
  private readonly reopening = new Map<Opened, Call[]>();
  private readonly pauses = new Map<Call, NodeJS.Timeout>();
  private readonly ending = new AbortController();
  private readonly starter: Starter;
  private recovery: Promise<void> | undefined;
  private failure: ConnectionLostError | TimeleapError | undefined;
  private calls = 0;

  constructor(private readonly settings: LinkSettings) {
    this.starter = new Starter(settings, this, this.sessions, this.ending.signal);
  }

  get state(): ClientState {
    return this.current;
  }

  get initialized(): InitializeResult | undefined {
    return this.announced;
  }

  get process(): ServerProcess | undefined {
    return this.connection?.process;
  }

  get trace(): Trace | undefined {
    return this.settings.trace;
  }

  // Life

  async start(): Promise<InitializeResult> {
    if (this.current !== "stopped") {
      throw new ClientClosedError(this.current === "disposed" ? "the client was disposed" : "the client was started already");
    }
    this.become("starting");
    try {
      this.goLive(await this.starter.start());
    } catch (error) {
      this.dispose(error as Error);
      throw error;
    }
    this.release();
    return this.known();
  }

  /** Ends the server in good order, if there is one, and starts it again. */
  async restart(): Promise<InitializeResult> {
    if (this.current === "stopped" || this.current === "disposed") {
      throw new ClientClosedError(`the client is ${this.current}`);
    }
    this.starter.forgive();
    if (this.current === "running" && this.connection) {
      this.become("restarting");
      const before = this.connection;
      await this.sayGoodbye(before, EXIT_GRACE); // its loss then finds us restarting
    } else if (this.current === "gaveUp") {
      this.become("restarting");
    }
    this.recovery ??= this.recover();
    await this.recovery;
    if (this.current !== "running") {
      throw this.failure ?? new ClientClosedError("the client was disposed");
    }
    return this.known();
  }

  async shutdown(): Promise<Exit> {
    const connection = this.current === "running" ? this.connection : undefined;
    if (connection === undefined) {
      this.dispose();
      return { code: null, signal: null };
    }
    this.become("disposed");
    this.dropWaiting(new ClientClosedError("the client is shut down"));
    return this.sayGoodbye(connection, EXIT_GRACE);
  }

  dispose(why: Error = new ClientClosedError("the client was disposed")): void {
    this.become("disposed");
    this.ending.abort();
    this.dropWaiting(why);
    const connection = this.connection;
    this.connection = undefined;
    connection?.abandon(why);
    connection?.process.finish(DISPOSE_GRACE).catch(() => undefined);
  }

  // Requests

  request(method: string, params: Params, options: RequestOptions, repeatable: boolean): Promise<unknown> {
    if (options.signal?.aborted) {
      return Promise.reject(cancelled());
    }
    let call: Call;
    try {
      call = new Call(++this.calls, method, params, options, repeatable);
    } catch (error) {
      return Promise.reject(error as Error);
    }
    this.submit(call);
    return call.reply;
  }

  notify(method: string, params: Params): void {
    if (this.connection?.alive) {
      this.connection.notify(method, params);
    }
  }

  private submit(call: Call): void {
    if (call.settled) {
      return; // given up while it waited
    }
    if (this.current === "disposed" || this.current === "stopped") {
      call.reject(new ClientClosedError(`the client is ${this.current}`));
    } else if (this.current === "gaveUp") {
      call.reject(this.failure ?? new ConnectionLostError("the server was given up"));
    } else if (this.current === "running" && this.connection?.alive && this.waiting.length === 0) {
      this.deliver(call, this.connection);
    } else {
      call.holder = this;
      this.waiting.push(call);
    }
  }

  private deliver(call: Call, connection: Connection): void {
    const opened = this.sessions.get(call.params["sessionId"]);
    if (opened?.refusal === undefined) {
      connection.send(call);
    } else if (call.method === "session/close") {
      this.answered(call, { result: {} }); // it is not open there
    } else {
      call.holder = this;
      const held = this.reopening.get(opened);
      if (held) {
        held.push(call);
      } else {
        this.reopening.set(opened, [call]);
        void this.reopenFirst(opened, connection);
      }
    }
  }

  /** Opens the session that a restart could not open, then lets go the requests on it. */
  private async reopenFirst(opened: Opened, connection: Connection): Promise<void> {
    await this.starter.tryToReopen(connection, opened, this.settings.patience);
    const held = this.reopening.get(opened) ?? [];
    this.reopening.delete(opened);
    for (const call of held) {
      if (opened.refusal && connection.alive) {
        call.reject(opened.refusal);
      } else {
        this.submit(call);
      }
    }
  }

  // As the holder of calls that wait

  cancel(call: Call): void {
    if (call.refusal) {
      call.reject(call.refusal);
    } else if (call.sends === 0) {
      call.reject(cancelled());
    } // else it may have taken effect: it is sent again, and cancelled there
    this.drop(call);
  }

  drop(call: Call): void {
    clearTimeout(this.pauses.get(call));
    this.pauses.delete(call);
  }

  // As the host of connections

  report(text: string): void {
    this.settings.log(text);
  }

  notified(method: string, params: Params): void {
    this.settings.notified(method, params);
  }

  answered(call: Call, outcome: { readonly result: unknown } | { readonly error: TimeleapError }): void {
    if ("result" in outcome) {
      if (call.number > 0) {
        this.sessions.note(call.method, call.params, outcome.result);
      }
      call.resolve(outcome.result);
    } else if (!this.tryLater(call, outcome.error)) {
      call.reject(outcome.error);
    }
  }

  lost(connection: Connection, reason: ConnectionLostError, unanswered: readonly Call[]): void {
    if (connection !== this.connection) {
      unanswered.forEach((call) => call.reject(reason)); // one that never came to be, or of the handshake
      return;
    }
    this.connection = undefined;
    if (this.current === "disposed") {
      unanswered.forEach((call) => call.reject(new ClientClosedError("the client was shut down")));
      return;
    }
    unanswered.forEach((call) => this.keep(call, reason));
    if (this.current === "running") {
      this.become("restarting");
      this.settings.emit("lost", reason);
      this.recovery ??= this.recover(reason);
    } // else we ended it ourselves
  }

  /** A call whose fate is not known: sent again if that is safe and has not been tried often enough. */
  private keep(call: Call, reason: ConnectionLostError): void {
    if (call.method === "session/close") {
      this.answered(call, { result: {} }); // what was open on that connection went with it
    } else if (call.repeatable && ++call.losses < this.settings.restarts.repeats) {
      call.holder = this;
      this.waiting.push(call);
    } else {
      call.reject(reason);
    }
  }

  /** An owner that hangs, or a hand-over that is under way: the same request may succeed in a moment. */
  private tryLater(call: Call, refusal: TimeleapError): boolean {
    const worth = refusal.kind === "sessionLocked" && refusal.retryable && call.repeatable && call.params["attach"] !== false;
    if (!worth || call.aborted || this.current !== "running") {
      return false;
    }
    const now = performance.now();
    call.refusedAt ??= now;
    const pause = pauseBefore(call.refusals++);
    if (now + pause - call.refusedAt > this.settings.patience) {
      return false;
    }
    call.refusal = refusal;
    call.holder = this;
    this.pauses.set(
      call,
      setTimeout(() => {
        this.pauses.delete(call);
        this.submit(call);
      }, pause),
    );
    return true;
  }

  // Starting

  private async recover(reason?: ConnectionLostError): Promise<void> {
    this.failure = undefined;
    try {
      const started = await this.starter.startAgain(reason ?? new ConnectionLostError("the server was ended"));
      this.recovery = undefined;
      this.goLive(started);
      this.settings.emit("restarted", started.reconnected);
      this.release();
    } catch (error) {
      this.recovery = undefined;
      if (this.current !== "disposed") {
        this.giveUp(error as ConnectionLostError | TimeleapError);
      }
    }
  }

  private goLive({ connection, initialized }: Started): void {
    this.connection = connection;
    this.announced = initialized;
    this.become("running");
    this.settings.emit("connected", initialized);
  }

  private async sayGoodbye(connection: Connection, grace: number): Promise<Exit> {
    const call = new Call(0, "shutdown", {}, { timeout: grace }, false);
    connection.send(call);
    try {
      await call.reply;
    } catch {
      return connection.process.finish(DISPOSE_GRACE); // it is gone, or does not answer
    }
    connection.notify("exit", {});
    return connection.process.finish(grace);
  }

  private release(): void {
    const waiting = this.waiting.sort((one, other) => one.number - other.number);
    this.waiting = [];
    for (const call of waiting) {
      call.stillAlive();
      this.submit(call);
    }
  }

  private giveUp(failure: ConnectionLostError | TimeleapError): void {
    this.failure = failure;
    this.become("gaveUp");
    this.settings.emit("gaveUp", failure);
    this.dropWaiting(failure);
  }

  private dropWaiting(why: Error): void {
    const waiting = [...this.waiting, ...[...this.reopening.values()].flat(), ...this.pauses.keys()];
    this.waiting = [];
    this.reopening.clear();
    this.pauses.forEach((timer) => clearTimeout(timer));
    this.pauses.clear();
    waiting.forEach((call) => call.reject(call.refusal ?? why));
  }

  private become(state: ClientState): void {
    if (this.current !== state) {
      this.current = state;
      this.settings.emit("state", state);
    }
  }

  private known(): InitializeResult {
    if (this.announced === undefined) {
      throw new ClientClosedError("the client is not connected yet");
    }
    return this.announced;
  }
}
