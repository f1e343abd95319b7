/** What a client has open, so that it can be opened again on a new server. */

import type { Params } from "./call.js";
import { isObject, type TimeleapError } from "./errors.js";
import type { SessionState } from "./generated/types.js";

const OPENING = new Set(["session/open", "session/fork", "session/import"]);
const KEPT_PARAMS = ["path", "access", "attach"];

/** A session that is open again after a restart, as it is now. */
export interface Reopened {
  readonly sessionId: string;
  readonly head: string;
  readonly access: SessionState["access"];
}

/** A session that is open. */
export interface Opened {
  readonly sessionId: string;
  /** Of the `session/open` that opens it again. */
  readonly params: Params;
  /** How many times it is open. */
  count: number;
  /** How many times it has been opened again on the present server. */
  again: number;
  /** As it was then. */
  standing: Reopened | undefined;
  /** Why it could not be opened again after the last restart. */
  refusal: TimeleapError | undefined;
}

/** The open sessions of one client, counted as the server counts them. */
export class OpenSessions implements Iterable<Opened> {
  private readonly sessions = new Map<string, Opened>();

  [Symbol.iterator](): Iterator<Opened> {
    return [...this.sessions.values()][Symbol.iterator]();
  }

  get(sessionId: unknown): Opened | undefined {
    return this.sessions.get(sessionId as string);
  }

  /** Takes in that a request succeeded. */
  note(method: string, params: Params, result: unknown): void {
    if (OPENING.has(method) && isObject(result) && typeof result["sessionId"] === "string") {
      this.opened(result["sessionId"], params);
      return;
    }
    const known = this.get(params["sessionId"]);
    if (known && (method === "session/close" || method === "session/delete")) {
      known.count = method === "session/close" ? known.count - 1 : 0;
      if (known.count <= 0) {
        this.sessions.delete(known.sessionId);
      }
    }
  }

  private opened(sessionId: string, params: Params): void {
    const fresh: Opened = { sessionId, params: reopening(sessionId, params), count: 0, again: 0, standing: undefined, refusal: undefined };
    const known = this.sessions.get(sessionId) ?? fresh;
    known.count += 1;
    this.sessions.set(sessionId, known);
  }
}

/** The id goes with the path: a directory whose name is no id was given one, and is to have the same again. */
function reopening(sessionId: string, params: Params): Params {
  const kept = Object.fromEntries(KEPT_PARAMS.filter((name) => name in params).map((name) => [name, params[name]]));
  return { sessionId, create: false, ...kept };
}
