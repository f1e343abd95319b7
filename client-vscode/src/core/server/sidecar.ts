/**
 * The server of this window: looked for and started when first needed. The client library keeps it running; here is what the
 * library cannot know: where the server is, and what to tell the user when there is none.
 */

import * as vscode from "vscode";
import type {
  InitializationOptions,
  InitializeResult,
  Methods,
  Notifications,
  Reconnected,
  RequestOptions,
  TimeleapClient,
} from "timeleap-client";
import { Disposables } from "../../shared/lifecycle.js";
import type { Settings } from "../../shared/settings.js";
import { withDetail } from "../../shared/text/detail.js";
import { ServerFailure, startFailure } from "./failure.js";
import type { Launch } from "./launch.js";

export type SidecarState =
  | { readonly kind: "idle" }
  | { readonly kind: "starting" }
  | { readonly kind: "ready"; readonly server: InitializeResult }
  /** It died, and is being started again. */
  | { readonly kind: "restarting" }
  | { readonly kind: "failed"; readonly failure: ServerFailure };

/** One end of the wire, as the rest of the extension sees it. */
export interface Wire {
  request<M extends keyof Methods>(method: M, params: Methods[M]["params"], options?: RequestOptions): Promise<Methods[M]["result"]>;
  onNotification<N extends keyof Notifications>(name: N, listener: (params: Notifications[N]) => void): vscode.Disposable;
}

/** What a method was answered with. */
export interface Answer {
  readonly method: keyof Methods;
  readonly result: unknown;
}

export interface SidecarOptions {
  readonly settings: () => Settings;
  /** Finds the server. @throws ServerFailure */
  readonly locate: (settings: Settings) => Promise<Launch>;
  readonly log: vscode.LogOutputChannel;
  readonly version: string;
  /** Milliseconds until a server has to have answered its first request. Default: 15 000. */
  readonly initializeTimeout?: number;
}

const INITIALIZE_TIMEOUT = 15_000;
/** Milliseconds a server that is no longer wanted may take to end; then nobody waits for it any more. */
const SHUTDOWN_TIMEOUT = 3_000;

export class Sidecar extends Disposables implements Wire {
  private readonly stateChanged = this.register(new vscode.EventEmitter<SidecarState>());
  readonly onDidChangeState = this.stateChanged.event;
  private readonly connected = this.register(new vscode.EventEmitter<Reconnected | undefined>());
  /** A server is there: another one, with nothing open yet (undefined), or the same again, with the sessions that it had. */
  readonly onDidConnect = this.connected.event;
  private readonly answered = this.register(new vscode.EventEmitter<Answer>());
  readonly onDidAnswer = this.answered.event;

  private current: SidecarState = { kind: "idle" };
  private client: TimeleapClient | undefined;
  private starting: Promise<TimeleapClient> | undefined;
  /** Resolves when the servers that are no longer wanted have ended: none is started beside them. */
  private ended: Promise<void> = Promise.resolve();
  /** Counts what was asked for, so that a start which is no longer wanted can tell. */
  private turn = 0;
  /** Notifications that somebody listens for. */
  private readonly heard = new Set<keyof Notifications>();
  private readonly notified = this.register(new vscode.EventEmitter<{ readonly name: keyof Notifications; readonly params: unknown }>());

  constructor(private readonly options: SidecarOptions) {
    super();
  }

  get state(): SidecarState {
    return this.current;
  }

  /** Sends a request, starting the server if need be. */
  async request<M extends keyof Methods>(
    method: M,
    params: Methods[M]["params"],
    options?: RequestOptions,
  ): Promise<Methods[M]["result"]> {
    const client = await this.started();
    const send = client.request.bind(client) as (method: M, params: unknown, options?: RequestOptions) => Promise<Methods[M]["result"]>;
    const result = await send(method, params, options);
    this.answered.fire({ method, result });
    return result;
  }

  onNotification<N extends keyof Notifications>(name: N, listener: (params: Notifications[N]) => void): vscode.Disposable {
    if (!this.heard.has(name)) {
      this.heard.add(name);
      this.hear(name, this.client);
    }
    return this.notified.event((notification) => {
      if (notification.name === name) {
        listener(notification.params as Notifications[N]);
      }
    });
  }

  /** Resolves when the server answers. @throws ServerFailure */
  async started(): Promise<TimeleapClient> {
    if (this.current.kind === "failed") {
      throw this.current.failure;
    }
    if (this.client) {
      // Not by way of `starting`: who opens sessions again when told of the connection is before those who wait for it.
      return this.client;
    }
    this.starting ??= this.start(++this.turn);
    return this.starting;
  }

  /** Ends the server, if there is one, looks for it again and starts it; also the way out of `failed`. @throws ServerFailure */
  async restart(): Promise<void> {
    const turn = this.leave();
    this.enter({ kind: "starting" });
    this.starting = this.ended.then(() => this.start(turn));
    await this.starting;
  }

  /** Ends the server in good order. */
  async stop(): Promise<void> {
    this.leave();
    await this.ended;
  }

  override dispose(): void {
    super.dispose();
    this.client?.dispose();
  }

  /** Begins another turn, and ends the server of the one before. */
  private leave(): number {
    const { client } = this;
    this.client = undefined;
    this.ended = this.ended.then(() => end(client));
    this.turn += 1;
    return this.turn;
  }

  /** @param turn Of when it was asked for: a later one takes its place, however long the server before both takes to end. */
  private async start(turn: number): Promise<TimeleapClient> {
    if (turn !== this.turn) {
      return this.started();
    }
    this.enter({ kind: "starting" });
    let launch: Launch | undefined;
    try {
      const settings = this.options.settings();
      launch = await this.options.locate(settings);
      this.options.log.info(`starting ${[launch.command, ...launch.args].join(" ")} (${launch.source})`);
      const client = await this.connect(launch, settings);
      if (turn !== this.turn || this.disposed) {
        client.dispose();
        return await this.started();
      }
      this.client = client;
      this.enter({ kind: "ready", server: client.server });
      this.connected.fire(undefined);
      return client;
    } catch (error) {
      const failure = await whyNot(error, launch);
      if (turn !== this.turn) {
        return this.started();
      }
      this.fail(failure);
      throw failure;
    }
  }

  private async connect(launch: Launch, settings: Settings): Promise<TimeleapClient> {
    // Loaded here, so that activation does not wait for it.
    const { TimeleapClient } = await import("timeleap-client");
    const client = new TimeleapClient(
      { command: launch.command, args: launch.args, env: { PYTHONUTF8: "1" } },
      {
        initialize: {
          clientInfo: { name: "timeleap-vscode", version: this.options.version },
          capabilities: { experimental: { timeleap: { approvals: true } } },
          initializationOptions: initializationOptions(settings),
        },
        initializeTimeout: this.options.initializeTimeout ?? INITIALIZE_TIMEOUT,
        requestTimeout: settings.requestTimeout,
        onLog: (text) => this.options.log.info(text.trimEnd()),
      },
    );
    for (const name of this.heard) {
      this.hear(name, client);
    }
    client.on("lost", (reason) => {
      this.options.log.warn(reason.message);
      this.enterOf(client, { kind: "restarting" });
    });
    client.on("restarted", (reconnected) => {
      this.enterOf(client, { kind: "ready", server: client.server });
      this.connected.fire(reconnected);
    });
    client.on("gaveUp", (reason) => {
      if (client === this.client) {
        this.fail(new ServerFailure("crashed", withDetail(vscode.l10n.t("The server ends again and again."), firstLine(reason.message), vscode.l10n.t("Nothing that it has confirmed is lost."))));
      }
    });
    await client.start();
    return client;
  }

  private hear(name: keyof Notifications, client: TimeleapClient | undefined): void {
    client?.onNotification(name, (params) => this.notified.fire({ name, params }));
  }

  private fail(failure: ServerFailure): void {
    this.options.log.error(failure.message);
    failure.told = true;
    this.enter({ kind: "failed", failure });
  }

  /** What becomes of a client that has been replaced is nobody's business. */
  private enterOf(client: TimeleapClient, state: SidecarState): void {
    if (client === this.client) {
      this.enter(state);
    }
  }

  private enter(state: SidecarState): void {
    const news = state.kind !== "starting" || this.current.kind !== "starting";
    this.current = state;
    if (news) {
      this.stateChanged.fire(state);
    }
  }
}

/** A server that answered, or did not in time, was started; where none was, the program may be the wrong one. */
async function whyNot(error: unknown, launch: Launch | undefined): Promise<ServerFailure> {
  const failure = startFailure(error, launch?.command ?? "timeleap");
  return failure.kind === "startFailed" ? ((await launch?.blame?.()) ?? failure) : failure;
}

async function end(client: TimeleapClient | undefined): Promise<void> {
  if (client) {
    await Promise.race([client.shutdown().catch(() => undefined), new Promise((resolve) => setTimeout(resolve, SHUTDOWN_TIMEOUT))]);
    client.dispose();
  }
}

function initializationOptions(settings: Settings): InitializationOptions {
  return {
    durability: settings.durability,
    ...(settings.home === "" ? {} : { home: settings.home }),
    // Not an argument of the command, which the log and other users of the machine can read.
    ...(settings.store === "" ? {} : { store: settings.store }),
    ...(settings.maxContextSize === null ? {} : { maxContextSize: settings.maxContextSize }),
  };
}

function firstLine(text: string): string {
  return text.split("\n", 1)[0] ?? text;
}
