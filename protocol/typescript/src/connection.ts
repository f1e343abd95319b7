/** One conversation with one server process: requests out, replies and notifications in. */

import { type Call, type Holder, type Params, type ProgressValue } from "./call.js";
import { guard } from "./emitter.js";
import { ConnectionLostError, isObject, StartFailedError, TimeleapError, type Exit } from "./errors.js";
import { encode, FrameReader, lineOf, type Message } from "./frames.js";
import { ERROR_CODES } from "./generated/methods.js";
import type { ServerProcess } from "./server.js";

/** Serves a request of the server: params in, result out; `signal` tells when it is no longer wanted. */
export type Handler = (params: Params, signal: AbortSignal) => Promise<unknown>;

/** Sees every message that crosses the wire, in order. */
export type Trace = (direction: "sent" | "received", message: Message) => void;

/** What a connection needs from its owner. */
export interface Host {
  /** Who serves the server's own requests. */
  readonly handlers: ReadonlyMap<string, Handler>;
  readonly trace: Trace | undefined;
  /** Told of what harms nobody but should be seen. */
  report(text: string): void;
  notified(method: string, params: Params): void;
  answered(call: Call, outcome: { readonly result: unknown } | { readonly error: TimeleapError }): void;
  /** The conversation is over; `unanswered` are the calls whose fate is not known, in the order they were sent. */
  lost(connection: Connection, reason: ConnectionLostError, unanswered: readonly Call[]): void;
}

/** How long a server whose output has ended may take to end itself, before it is ended. */
const END_AFTER_OUTPUT = 2_000;
const TAIL = 2_000;

export class Connection implements Holder {
  /** Of the server, once it has announced it: a longer request is refused here, where it can be named. */
  maxFrameBytes = Number.POSITIVE_INFINITY;
  private readonly pending = new Map<number, Call>();
  private readonly tokens = new Map<unknown, Call>();
  private readonly serving = new Map<unknown, AbortController>();
  private readonly frames = new FrameReader();
  private lastId = 0;
  private over = false;
  /** Why we ended it. */
  private why: string | undefined;
  /** Why the server ended it. */
  private lastWords = "";

  constructor(
    readonly process: ServerProcess,
    private readonly host: Host,
  ) {
    process.read(
      (chunk) => this.feed(chunk),
      () => this.outputEnded(),
    );
    process.ended.then(
      (exit) => this.lose(this.reason(exit)),
      (error: StartFailedError) => this.lose(error),
    );
  }

  get alive(): boolean {
    return !this.over;
  }

  /** The server asks us something, so it cannot answer meanwhile. */
  get busy(): boolean {
    return this.serving.size > 0;
  }

  /** Sends a request; what becomes of it is told to the host. */
  send(call: Call): void {
    const id = ++this.lastId;
    const data = Buffer.from(`{"jsonrpc":"2.0","id":${id},"method":${JSON.stringify(call.method)},"params":${call.body}}\n`);
    if (data.length > this.maxFrameBytes) {
      const why = `${call.method} takes ${data.length} bytes; the server reads at most ${this.maxFrameBytes}`;
      call.reject(TimeleapError.make("tooLarge", why));
      return;
    }
    call.id = id;
    call.holder = this;
    call.sends += 1;
    this.pending.set(id, call);
    if (call.options.onProgress) {
      this.tokens.set(call.params["workDoneToken"], call);
    }
    this.write({ jsonrpc: "2.0", id, method: call.method, params: call.params }, data);
    if (call.aborted) {
      this.cancel(call);
    }
  }

  notify(method: string, params: Params): void {
    this.write({ jsonrpc: "2.0", method, params });
  }

  cancel(call: Call): void {
    this.notify("$/cancelRequest", { id: call.id });
  }

  drop(call: Call): void {
    this.cancel(call);
    this.forget(call);
  }

  /** Ends the conversation on our side: nobody is told but the callers. The process goes on. */
  abandon(why: Error): void {
    this.over = true;
    const unanswered = this.endAll();
    unanswered.forEach((call) => call.reject(why));
  }

  private forget(call: Call): void {
    this.pending.delete(call.id);
    if (call.options.onProgress) {
      this.tokens.delete(call.params["workDoneToken"]);
    }
  }

  private write(message: Message, data?: Buffer): void {
    if (this.over) {
      return;
    }
    this.host.trace?.("sent", message);
    this.process.write(data ?? encode(message));
  }

  private feed(chunk: Buffer): void {
    if (this.over || this.why !== undefined) {
      return;
    }
    try {
      for (const message of this.frames.feed(chunk)) {
        this.host.trace?.("received", message);
        this.take(message);
      }
    } catch (error) {
      // Garbage on the stream cannot be recovered from; the process may still own our sessions, so it has to go.
      this.why = `the server broke the protocol: ${(error as Error).message}`;
      this.process.kill();
    }
  }

  private take(message: Message): void {
    const { method, id } = message;
    const params = isObject(message["params"]) ? message["params"] : {};
    if (typeof method !== "string") {
      this.takeReply(message);
    } else if (id !== undefined) {
      void this.serve(method, params, id);
    } else if (method === "$/cancelRequest") {
      this.serving.get(params["id"])?.abort();
    } else {
      if (method === "$/progress") {
        this.takeProgress(params);
      }
      this.host.notified(method, params);
    }
  }

  private takeReply(message: Message): void {
    const call = this.pending.get(message["id"] as number);
    if (call === undefined) {
      // Answers to cancelled requests come late. One without an id says why the server ends the connection.
      if (message["id"] === null && isObject(message["error"])) {
        this.host.report(`the server says: ${String(message["error"]["message"])}\n`);
        this.lastWords = `, saying: ${String(message["error"]["message"])}`;
      }
      return;
    }
    this.forget(call);
    const { onReply } = call.options;
    if (onReply && !("error" in message)) {
      guard((text) => this.host.report(text), "a reply callback", () => onReply(lineOf(message)));
    }
    const outcome = "error" in message ? { error: TimeleapError.of(message["error"]) } : { result: message["result"] };
    this.host.answered(call, outcome);
  }

  private takeProgress(params: Params): void {
    const call = this.tokens.get(params["token"]);
    const onProgress = call?.options.onProgress;
    if (call && onProgress && isObject(params["value"])) {
      call.stillAlive();
      const value = params["value"] as unknown as ProgressValue;
      guard((text) => this.host.report(text), "a progress callback", () => onProgress(value));
    }
  }

  private async serve(method: string, params: Params, id: unknown): Promise<void> {
    const abort = new AbortController();
    this.serving.set(id, abort);
    const answer = await this.outcomeOf(method, params, abort.signal);
    this.serving.delete(id);
    for (const call of this.pending.values()) {
      call.stillAlive(); // a caller that waits for a reply may have waited for our part of the work
    }
    this.write({ jsonrpc: "2.0", id, ...answer });
  }

  private async outcomeOf(method: string, params: Params, signal: AbortSignal): Promise<Message> {
    const handler = this.host.handlers.get(method);
    if (handler === undefined) {
      return { error: { code: ERROR_CODES.methodNotFound, message: `this client does not serve ${method}` } };
    }
    // A handler that does not heed the signal must not keep the server waiting.
    const given = new Promise<never>((_, reject) => {
      signal.addEventListener("abort", () => reject(new Error("cancelled")), { once: true });
    });
    try {
      const result = await Promise.race([handler(params, signal), given]);
      encode({ result }); // what cannot be sent is the handler's failure
      return { result: result ?? null };
    } catch (error) {
      const code = signal.aborted ? ERROR_CODES.cancelled : ERROR_CODES.internalError;
      return { error: { code, message: error instanceof Error ? error.message : String(error) } };
    }
  }

  private outputEnded(): void {
    // Of no more use where it still runs, and maybe still the owner of our sessions.
    const force = setTimeout(() => this.process.kill(), END_AFTER_OUTPUT);
    force.unref();
    const settle = (): void => clearTimeout(force);
    this.process.ended.then(settle, settle);
  }

  private reason(exit: Exit): ConnectionLostError {
    const how = exit.signal ?? `exit code ${exit.code}`;
    const log = this.process.log.slice(-TAIL);
    const why = this.why ?? "the server went away";
    return new ConnectionLostError(`${why} (${how})${this.lastWords}${log ? `:\n${log}` : ""}`, exit);
  }

  private lose(reason: ConnectionLostError): void {
    if (this.over) {
      return;
    }
    this.over = true;
    this.host.lost(this, reason, this.endAll());
  }

  private endAll(): Call[] {
    this.serving.forEach((abort) => abort.abort());
    this.serving.clear();
    this.tokens.clear();
    const unanswered = [...this.pending.values()];
    this.pending.clear();
    return unanswered;
  }
}
