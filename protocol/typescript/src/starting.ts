/** Starting servers: a process, the opening handshake, and the sessions that are to be open on it. */

import { Call, type Params } from "./call.js";
import { Connection, type Host } from "./connection.js";
import { ClientClosedError, ConnectionLostError, StartFailedError, TimeleapError } from "./errors.js";
import { PROTOCOL_VERSION } from "./generated/methods.js";
import type { InitializeParams, InitializeResult, SessionState } from "./generated/types.js";
import { ServerProcess, type ServerCommand } from "./server.js";
import type { Opened, OpenSessions, Reopened } from "./sessions.js";

/** How a server that went away is started again. All times in milliseconds. */
export interface Restarts {
  /** Starts in a row without `stable` of running between them; then it is given up. */
  readonly limit: number;
  /** Before the second start in a row; doubled for each further one, up to `longest`. */
  readonly delay: number;
  readonly longest: number;
  /** How long a server has to run for its loss to count as the first one again. */
  readonly stable: number;
  /** How often one request is sent at most without an answer: it may be what the server cannot stand. */
  readonly repeats: number;
}

export const DEFAULT_RESTARTS: Restarts = { limit: 5, delay: 200, longest: 5_000, stable: 10_000, repeats: 3 };

/**
 * The server was started again and the sessions are open again. What changed meanwhile was not notified: read again
 * what you show, starting from these heads.
 */
export interface Reconnected {
  readonly sessions: readonly Reopened[];
  /** Sessions that could not be opened again yet; the next request on one tries it again. */
  readonly refused: readonly { readonly sessionId: string; readonly error: TimeleapError }[];
}

export interface StartSettings {
  readonly server: ServerCommand;
  readonly greeting: InitializeParams;
  readonly initializeTimeout: number;
  readonly restarts: Restarts;
}

/** A server that is ready, with what it said and what became of the sessions. */
export interface Started {
  readonly connection: Connection;
  readonly initialized: InitializeResult;
  readonly reconnected: Reconnected;
}

const FIRST_PAUSE = 50;
const LONGEST_PAUSE = 1_000;
/** How long a restart waits for a session that another process holds; requests on it wait longer. */
const REOPEN_PATIENCE = 2_000;

/** The pause before the next attempt at what another process holds up, in ms. */
export function pauseBefore(attempt: number): number {
  return Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** attempt);
}

export class Starter {
  private starts = 0;
  private startedAt = 0;

  /**
   * @param host Of the connections.
   * @param sessions What is to be open.
   * @param ending Ends whatever is under way.
   */
  constructor(
    private readonly settings: StartSettings,
    private readonly host: Host,
    private readonly sessions: OpenSessions,
    private readonly ending: AbortSignal,
  ) {}

  /** The next start counts as the first one. */
  forgive(): void {
    this.starts = 0;
  }

  /** Starts a server in the place of one that went away; gives up after too many starts in a row. */
  async startAgain(lost: ConnectionLostError): Promise<Started> {
    this.ending.throwIfAborted();
    const { limit, delay, longest, stable } = this.settings.restarts;
    if (performance.now() - this.startedAt >= stable) {
      this.starts = 0;
    }
    let latest = lost;
    while (this.starts < limit) {
      await this.pause(this.starts === 0 ? 0 : Math.min(longest, delay * 2 ** (this.starts - 1)));
      this.starts += 1;
      try {
        return await this.start();
      } catch (error) {
        if (!(error instanceof ConnectionLostError)) {
          throw error;
        }
        latest = error;
      }
    }
    const tried = this.starts > 0 ? `\n(given up after ${this.starts} starts in a row)` : "";
    throw new ConnectionLostError(latest.message + tried, latest.exit);
  }

  private pause(milliseconds: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const signal = this.ending;
      const stop = (): void => {
        clearTimeout(timer);
        reject(disposed());
      };
      const timer = setTimeout(() => {
        signal.removeEventListener("abort", stop);
        resolve();
      }, milliseconds);
      signal.addEventListener("abort", stop, { once: true });
    });
  }

  /** Starts a server. */
  async start(): Promise<Started> {
    const process = new ServerProcess(this.settings.server, (text) => this.host.report(text));
    const connection = new Connection(process, this.host);
    const stop = (): void => process.kill();
    this.ending.addEventListener("abort", stop, { once: true });
    try {
      const initialized = await this.shakeHands(connection);
      const reconnected = await this.reopenAll(connection);
      this.ending.throwIfAborted();
      if (!connection.alive) {
        throw new ConnectionLostError("the server went away while sessions were opened");
      }
      this.startedAt = performance.now();
      return { connection, initialized, reconnected };
    } catch (error) {
      process.kill();
      throw this.ending.aborted ? disposed() : error;
    } finally {
      this.ending.removeEventListener("abort", stop);
    }
  }

  private async shakeHands(connection: Connection): Promise<InitializeResult> {
    let result: InitializeResult;
    try {
      result = (await this.ask(connection, "initialize", { ...this.settings.greeting })) as InitializeResult;
    } catch (error) {
      if (error instanceof TimeleapError || error instanceof StartFailedError) {
        throw error;
      }
      const log = connection.process.log;
      throw new StartFailedError(`the server did not start: ${(error as Error).message}${log ? `\n${log}` : ""}`);
    }
    const theirs = result?.capabilities?.experimental?.timeleap;
    if (theirs?.protocolVersion !== PROTOCOL_VERSION) {
      const said = theirs === undefined ? "no version of the protocol" : `version ${String(theirs.protocolVersion)} of the protocol`;
      throw TimeleapError.make("protocolVersion", `the server speaks ${said}, this client version ${PROTOCOL_VERSION}`);
    }
    connection.maxFrameBytes = theirs.limits?.maxFrameBytes ?? Number.POSITIVE_INFINITY;
    connection.notify("initialized", {});
    return result;
  }

  private async reopenAll(connection: Connection): Promise<Reconnected> {
    for (const opened of this.sessions) {
      opened.again = 0;
    }
    await Promise.all([...this.sessions].map((opened) => this.tryToReopen(connection, opened)));
    const all = [...this.sessions];
    return {
      sessions: all.flatMap(({ standing, refusal }) => (standing && !refusal ? [standing] : [])),
      refused: all.flatMap(({ sessionId, refusal }) => (refusal ? [{ sessionId, error: refusal }] : [])),
    };
  }

  /** A refusal waits for the next request on that session, and stops no other one. */
  async tryToReopen(connection: Connection, opened: Opened, patience = REOPEN_PATIENCE): Promise<void> {
    try {
      await this.reopen(connection, opened, patience);
      opened.refusal = undefined;
    } catch (error) {
      if (error instanceof TimeleapError) {
        opened.refusal = error;
      } else if (connection.alive) {
        opened.refusal = TimeleapError.make("sessionLocked", (error as Error).message);
      }
    }
  }

  private async reopen(connection: Connection, opened: Opened, patience: number): Promise<void> {
    // The lock of a server that was killed is free at once; that of one that still drains is, a little later.
    const until = performance.now() + patience;
    for (let attempt = 0; opened.again < opened.count; ) {
      try {
        const { sessionId, head, access } = (await this.ask(connection, "session/open", opened.params)) as SessionState;
        opened.again += 1;
        opened.standing = { sessionId, head, access };
      } catch (error) {
        if (!(error instanceof TimeleapError && error.retryable && performance.now() + pauseBefore(attempt) < until)) {
          throw error;
        }
        await this.pause(pauseBefore(attempt));
        attempt += 1;
      }
    }
  }

  /** A request of our own, past the queue. */
  private ask(connection: Connection, method: string, params: Params): Promise<unknown> {
    const call = new Call(0, method, params, { timeout: this.settings.initializeTimeout }, false);
    connection.send(call);
    return call.reply;
  }
}

function disposed(): ClientClosedError {
  return new ClientClosedError("the client was disposed");
}
