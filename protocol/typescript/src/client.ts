/** The client: one connection to one server. */

import {
  CancellationTokenSource,
  createMessageConnection,
  StreamMessageReader,
  StreamMessageWriter,
  type CancellationToken,
  type MessageConnection,
} from "vscode-jsonrpc/node";
import { ConnectionClosedError, RequestTimeoutError, TimeleapError } from "./errors.js";
import { PROTOCOL_VERSION, type ClientRequests, type Methods, type Notifications } from "./generated/methods.js";
import type { InitializeParams, InitializeResult } from "./generated/types.js";
import { ServerProcess, type Exit, type ServerCommand } from "./server.js";

/** Answers `context/summarize` with a model of the client's own. What it throws leaves the session as it is. */
export type Summarize = (
  params: ClientRequests["context/summarize"]["params"],
  cancelled: AbortSignal,
) => Promise<ClientRequests["context/summarize"]["result"]>;

export interface ClientOptions {
  /** Params of `initialize`; the protocol version and `summarize` are filled in. */
  readonly initialize?: InitializeParams;
  /** Milliseconds until the server has to have answered `initialize`. Default: 10 000. */
  readonly initializeTimeout?: number;
  /** Milliseconds until a request has to be answered; 0: no limit. Default: 60 000. */
  readonly requestTimeout?: number;
  /** Given: the server may ask this client for summaries. */
  readonly summarize?: Summarize;
  /** Gets what the server writes to standard error. Default: it goes to this process's. */
  readonly onLog?: (text: string) => void;
}

export interface RequestOptions {
  /** As `ClientOptions.requestTimeout`, for this request. */
  readonly timeout?: number;
  /** Asks the server to give the request up. It is then rejected as `cancelled`, or resolves with its real result. */
  readonly signal?: AbortSignal;
}

export interface Disposable {
  dispose(): void;
}

/** Params may be left out where none is required. */
type RequestArguments<P> = {} extends P ? [params?: P, options?: RequestOptions] : [params: P, options?: RequestOptions];

type ClosedListener = (reason: ConnectionClosedError) => void;

const INITIALIZE_TIMEOUT = 10_000;
const REQUEST_TIMEOUT = 60_000;
const EXIT_TIMEOUT = 10_000;

export class TimeleapClient implements Disposable {
  private readonly connection: MessageConnection;
  private readonly closed: Promise<never>;
  private readonly closedListeners = new Set<ClosedListener>();
  private reject!: (reason: ConnectionClosedError) => void;
  private lost: ConnectionClosedError | undefined;
  private announced: InitializeResult | undefined;

  private constructor(
    private readonly child: ServerProcess,
    private readonly options: ClientOptions,
  ) {
    this.connection = createMessageConnection(
      new StreamMessageReader(child.output),
      new StreamMessageWriter(child.input),
    );
    this.closed = new Promise<never>((_, reject) => {
      this.reject = reject;
    });
    // Requests race against it; without any, its rejection is nobody's business.
    this.closed.catch(() => undefined);
    this.watch();
    if (options.summarize) {
      this.serve(options.summarize);
    }
    this.connection.listen();
  }

  /**
   * Starts a server and initializes the connection.
   *
   * @throws RequestTimeoutError, ConnectionClosedError, TimeleapError; the process is ended then.
   */
  static async start(server: ServerCommand, options: ClientOptions = {}): Promise<TimeleapClient> {
    const client = new TimeleapClient(new ServerProcess(server, options.onLog), options);
    try {
      await client.initialize();
    } catch (error) {
      client.dispose();
      throw error;
    }
    return client;
  }

  /** What the server answered to `initialize`. */
  get server(): InitializeResult {
    if (!this.announced) {
      throw new Error("the connection is not initialized");
    }
    return this.announced;
  }

  /** Sends a request. Rejects with `TimeleapError`, `RequestTimeoutError` or `ConnectionClosedError`. */
  async request<M extends keyof Methods>(
    method: M,
    ...[params, options]: RequestArguments<Methods[M]["params"]>
  ): Promise<Methods[M]["result"]> {
    if (this.lost) {
      throw this.lost;
    }
    const cancellation = new CancellationTokenSource();
    const cancel = (): void => cancellation.cancel();
    options?.signal?.addEventListener("abort", cancel, { once: true });
    if (options?.signal?.aborted) {
      cancel();
    }
    const reply = this.connection.sendRequest<Methods[M]["result"]>(method, params ?? {}, cancellation.token);
    try {
      return await this.inTime(method, reply, options?.timeout ?? this.options.requestTimeout ?? REQUEST_TIMEOUT, cancel);
    } catch (error) {
      throw this.lost ?? TimeleapError.from(error);
    } finally {
      options?.signal?.removeEventListener("abort", cancel);
      cancellation.dispose();
    }
  }

  /** Calls `listener` for every notification of that name. */
  onNotification<N extends keyof Notifications>(name: N, listener: (params: Notifications[N]) => void): Disposable {
    if (name === "$/progress") {
      // vscode-jsonrpc keeps progress to itself and offers it by token; this is the way to see all of it.
      return this.connection.onUnhandledProgress((params) => listener(params as Notifications[N]));
    }
    return this.connection.onNotification(name, listener);
  }

  /** Calls `listener` once when the connection is lost for a reason other than `shutdown` or `dispose`. */
  onClose(listener: ClosedListener): Disposable {
    this.closedListeners.add(listener);
    return { dispose: () => this.closedListeners.delete(listener) };
  }

  /** Ends the server in good order; resolves when its process has ended. */
  async shutdown(): Promise<Exit> {
    await this.request("shutdown");
    this.closedListeners.clear();
    await this.connection.sendNotification("exit");
    const late = setTimeout(() => this.child.kill(), EXIT_TIMEOUT);
    try {
      return await this.child.ended;
    } finally {
      clearTimeout(late);
      this.dispose();
    }
  }

  /** Ends connection and process at once. What the server accepted is kept; replies are lost. */
  dispose(): void {
    this.closedListeners.clear();
    this.close(new ConnectionClosedError("the client was disposed"));
  }

  private async initialize(): Promise<void> {
    const given = this.options.initialize ?? {};
    const experimental = given.capabilities?.experimental ?? {};
    const timeleap = { protocolVersion: PROTOCOL_VERSION, summarize: this.options.summarize !== undefined };
    const params: InitializeParams = {
      processId: process.pid,
      ...given,
      capabilities: { ...given.capabilities, experimental: { ...experimental, timeleap } },
    };
    const timeout = this.options.initializeTimeout ?? INITIALIZE_TIMEOUT;
    this.announced = await this.request("initialize", params, { timeout });
    await this.connection.sendNotification("initialized", {});
  }

  private async inTime<T>(method: string, reply: Promise<T>, milliseconds: number, cancel: () => void): Promise<T> {
    let timer: NodeJS.Timeout | undefined;
    const races: Promise<T>[] = [reply, this.closed];
    if (milliseconds > 0) {
      races.push(
        new Promise<never>((_, reject) => {
          timer = setTimeout(() => {
            cancel();
            reject(new RequestTimeoutError(method, milliseconds));
          }, milliseconds);
        }),
      );
    }
    // The one that comes too late must not become an unhandled rejection.
    reply.catch(() => undefined);
    try {
      return await Promise.race(races);
    } finally {
      clearTimeout(timer);
    }
  }

  private serve(summarize: Summarize): void {
    this.connection.onRequest(
      "context/summarize",
      (params: ClientRequests["context/summarize"]["params"], token: CancellationToken) => {
        const abort = new AbortController();
        token.onCancellationRequested(() => abort.abort());
        return summarize(params, abort.signal);
      },
    );
  }

  /** Garbage on the stream cannot be recovered from, so everything that looks like it ends the connection. */
  private watch(): void {
    this.connection.onError(([error]) => this.close(new ConnectionClosedError(`the stream is broken: ${error.message}`)));
    this.connection.onClose(() => this.close(new ConnectionClosedError("the server closed the connection")));
    this.child.ended.then(
      ({ code, signal }) => this.close(new ConnectionClosedError(`the server ended (${signal ?? `code ${code}`})`)),
      (error: Error) => this.close(new ConnectionClosedError(`the server cannot be started: ${error.message}`)),
    );
  }

  private close(reason: ConnectionClosedError): void {
    if (this.lost) {
      return;
    }
    this.lost = reason;
    this.reject(reason);
    this.connection.dispose();
    this.child.kill();
    for (const listener of this.closedListeners) {
      listener(reason);
    }
    this.closedListeners.clear();
  }
}
