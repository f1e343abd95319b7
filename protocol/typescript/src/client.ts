/** The client: starts a server, keeps it running, and speaks to it by the protocol's method table. */

import { randomUUID } from "node:crypto";
import type { Params, RequestOptions } from "./call.js";
import type { Trace } from "./connection.js";
import { Emitter, type Disposable, type Listener } from "./emitter.js";
import { ClientClosedError, type Exit } from "./errors.js";
import {
  MUTATING,
  PROTOCOL_VERSION,
  WAITING,
  type ClientNotifications,
  type ClientRequests,
  type Methods,
  type Notifications,
} from "./generated/methods.js";
import type { GetHistoryParams, GetHistoryResult, HistoryMessage, InitializeParams, InitializeResult, LogRecord } from "./generated/types.js";
import { Link, type ClientState, type LinkEvents } from "./link.js";
import type { ServerCommand } from "./server.js";
import { DEFAULT_RESTARTS, type Restarts } from "./starting.js";

/** Answers `context/summarize` with a model of the client's own. What it throws leaves the session as it is. */
export type Summarize = (
  params: ClientRequests["context/summarize"]["params"],
  cancelled: AbortSignal,
) => Promise<ClientRequests["context/summarize"]["result"]>;

export interface ClientOptions {
  /** Params of `initialize`; `processId`, the protocol version and `summarize` are filled in. */
  readonly initialize?: InitializeParams;
  /**
   * Where the sessions are: a directory, or `postgresql://...`, whose password stands in `~/.pgpass`, a service file or
   * `PGPASSWORD`. Default: `TIMELEAP_STORE`, else the server's own.
   */
  readonly store?: string;
  /** Milliseconds until the server has to have answered `initialize`. Default: 60 000. */
  readonly initializeTimeout?: number;
  /** Milliseconds until a request has to be answered; 0: no limit. Default: 60 000. */
  readonly requestTimeout?: number;
  /**
   * Milliseconds to go on trying, within the timeout, where another process owns the session and does not answer
   * (`sessionLocked`, retryable): it hangs, or hands over. Default: 10 000.
   */
  readonly patience?: number;
  /** Given: the server may ask this client for summaries. */
  readonly summarize?: Summarize;
  /** Gets what the server writes to standard error, and what went wrong in listeners. Default: this process's. */
  readonly onLog?: (text: string) => void;
  /** How a server that went away is started again; false: not at all. */
  readonly restarts?: Partial<Restarts> | false;
  /** Sees every message that is sent or received. */
  readonly trace?: Trace;
}

/** A page of the history with `include: ["opaque"]`: opaque records stand among the messages. */
export type HistoryWithRecords = Omit<GetHistoryResult, "messages"> & { messages: (HistoryMessage | LogRecord)[] };

/** What becomes of the server. */
export type ClientEvents = LinkEvents;

/** Params may be left out where none is required. */
type RequestArguments<P> = {} extends P ? [params?: P, options?: RequestOptions] : [params: P, options?: RequestOptions];

const INITIALIZE_TIMEOUT = 60_000;
const REQUEST_TIMEOUT = 60_000;
const PATIENCE = 10_000;
/** Seconds that an approval is waited for unless the request says otherwise, and for its answer to arrive after that. */
const APPROVAL_TIMEOUT = 600;
const AFTER_DECISION = 30;
const LONGEST_TIMER = 2 ** 31 - 1;
const NO_RESTARTS: Restarts = { ...DEFAULT_RESTARTS, limit: 0, repeats: 1 };

/**
 * Starts a server and keeps it running.
 *
 * Requests are sent in the order of the calls. A request that changes something carries a `requestId`; when the server
 * goes away it is started again, the sessions are opened again, and what was not answered is sent again, in the same
 * order: it takes effect once.
 */
export class TimeleapClient implements Disposable {
  private readonly link: Link;
  private readonly events: Emitter<ClientEvents>;
  private readonly notifications: Emitter<Notifications>;

  /** Starts nothing yet: listen first, then `start`. */
  constructor(
    server: ServerCommand,
    private readonly options: ClientOptions = {},
  ) {
    const log = options.onLog ?? ((text: string) => void process.stderr.write(text));
    this.events = new Emitter(log);
    this.notifications = new Emitter(log);
    this.link = new Link({
      server,
      greeting: greeting(options),
      initializeTimeout: options.initializeTimeout ?? INITIALIZE_TIMEOUT,
      patience: options.patience ?? PATIENCE,
      restarts: options.restarts === false ? NO_RESTARTS : { ...DEFAULT_RESTARTS, ...options.restarts },
      trace: options.trace,
      log,
      emit: (event, value) => this.events.emit(event, value),
      notified: (method, params) => this.notifications.emit(method as keyof Notifications, params as never),
    });
    const { summarize } = options;
    if (summarize) {
      type Asked = Parameters<Summarize>[0];
      this.link.handlers.set("context/summarize", async (params, signal) => summarize(params as unknown as Asked, signal));
    }
  }

  /** A client whose server is running; see `start`. */
  static async start(server: ServerCommand, options: ClientOptions = {}): Promise<TimeleapClient> {
    const client = new TimeleapClient(server, options);
    await client.start();
    return client;
  }

  /**
   * Starts the server and shakes hands. This first time nothing is repeated: a wrong command does not get better.
   *
   * @throws StartFailedError It could not be started; TimeleapError: it refused us, such as for our protocol version
   * (`kind` is `protocolVersion`). The client is disposed of then.
   */
  start(): Promise<InitializeResult> {
    return this.link.start();
  }

  /** Ends the server in good order and starts it again, also after `gaveUp`; sessions are opened again. */
  restart(): Promise<InitializeResult> {
    return this.link.restart();
  }

  get state(): ClientState {
    return this.link.state;
  }

  /** What the server answered to the latest `initialize`. */
  get server(): InitializeResult {
    if (!this.link.initialized) {
      throw new ClientClosedError("the client is not connected yet");
    }
    return this.link.initialized;
  }

  /** The process id of the server; undefined while there is none. */
  get pid(): number | undefined {
    return this.link.process?.pid;
  }

  /** Sends a request. Rejects with an error of `errors.ts`. */
  request(
    method: "context/getHistory",
    params: GetHistoryParams & { include: "opaque"[] },
    options?: RequestOptions,
  ): Promise<HistoryWithRecords>;
  request<M extends keyof Methods>(method: M, ...rest: RequestArguments<Methods[M]["params"]>): Promise<Methods[M]["result"]>;
  request(method: keyof Methods, params?: object, options?: RequestOptions): Promise<unknown> {
    const sent: Params = { ...params };
    const ours = WAITING.has(method) ? afterDecision(sent) : (this.options.requestTimeout ?? REQUEST_TIMEOUT);
    const timeout = options?.timeout ?? ours;
    if (MUTATING.has(method) || WAITING.has(method)) {
      sent["requestId"] ??= randomUUID();
    }
    if (options?.onProgress) {
      sent["workDoneToken"] ??= `progress-${randomUUID()}`;
    }
    // What changes something carries a request id, the rest changes nothing: everything may be sent again.
    return this.link.request(method, sent, { ...options, timeout }, true);
  }

  /** Sends a notification; lost where there is no server at the moment. */
  notify<N extends keyof ClientNotifications>(name: N, params: ClientNotifications[N]): void {
    this.link.notify(name, { ...params });
  }

  /** Calls `listener` for every notification of that name, in the order they were sent. */
  onNotification<N extends keyof Notifications>(name: N, listener: Listener<Notifications[N]>): Disposable {
    return this.notifications.on(name, listener);
  }

  /** Calls `listener` when that becomes of the server. */
  on<E extends keyof ClientEvents>(event: E, listener: Listener<ClientEvents[E]>): Disposable {
    return this.events.on(event, listener);
  }

  /** Ends the server in good order, once it has answered what it was asked; resolves when its process has ended. */
  shutdown(): Promise<Exit> {
    return this.link.shutdown();
  }

  /**
   * Ends the connection at once: what is pending is rejected, nothing is told any more. The server finishes what it has
   * accepted and ends; by force after two seconds. May be called at any time and again.
   */
  dispose(): void {
    this.link.dispose();
    this.events.clear();
    this.notifications.clear();
  }
}

/** Milliseconds to wait for an answer that needs a person; 0, no limit, where a timer cannot hold them. */
function afterDecision(sent: Params): number {
  const seconds = typeof sent["timeout"] === "number" ? sent["timeout"] : APPROVAL_TIMEOUT;
  const wait = (seconds + AFTER_DECISION) * 1000;
  return wait <= LONGEST_TIMER ? wait : 0;
}

function greeting(options: ClientOptions): InitializeParams {
  const given = options.initialize ?? {};
  const experimental = given.capabilities?.experimental ?? {};
  const timeleap = { protocolVersion: PROTOCOL_VERSION, summarize: options.summarize !== undefined, approvals: true };
  return {
    processId: process.pid,
    ...given,
    // Not an argument of the command: others on this machine can read those.
    ...(options.store === undefined ? {} : { initializationOptions: { ...given.initializationOptions, store: options.store } }),
    capabilities: { ...given.capabilities, experimental: { ...experimental, timeleap } },
  };
}
