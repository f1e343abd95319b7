/**
 * What can go wrong on this side of the wire, and what the other side says went wrong.
 *
 *     TimeleapError          the server answered with an error
 *     RequestTimeoutError    no answer in time; the request was cancelled
 *     ConnectionLostError    the server went away, and starting it again did not help
 *     └── StartFailedError   it could not be started, or did not get through the opening handshake
 *     ClientClosedError      used before `start`, or after `shutdown` or `dispose`
 */

import { ERROR_CODES, type ErrorKind } from "./generated/methods.js";
import type { ErrorData } from "./generated/types.js";

/** How a process ended. */
export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** An error reply of the server. */
export class TimeleapError extends Error {
  override readonly name = "TimeleapError";

  constructor(
    message: string,
    readonly code: number,
    readonly data: ErrorData,
  ) {
    super(message);
  }

  /** The stable name of the error; compare this. A newer server may send kinds this version does not know. */
  get kind(): ErrorKind | (string & {}) {
    return this.data.kind;
  }

  /** Whether the very same request may succeed later. */
  get retryable(): boolean {
    return this.data.retryable;
  }

  /** From the `error` of a reply. */
  static of(error: unknown): TimeleapError {
    const { code, message, data }: { [member: string]: unknown } = isObject(error) ? error : {};
    const known = typeof code === "number" ? code : ERROR_CODES.internalError;
    return new TimeleapError(typeof message === "string" ? message : "an error without a message", known, errorData(known, data));
  }

  /** An error this client finds itself, in the words of the protocol. */
  static make(kind: ErrorKind, message: string): TimeleapError {
    return new TimeleapError(message, ERROR_CODES[kind], { kind, retryable: false });
  }
}

/** No reply came in time. Whether the request took effect is not known: repeat it with the same `requestId`. */
export class RequestTimeoutError extends Error {
  override readonly name = "RequestTimeoutError";

  constructor(method: string, milliseconds: number) {
    super(`${method} was not answered within ${milliseconds} ms`);
  }
}

/** The server went away. Whether the request took effect is not known. */
export class ConnectionLostError extends Error {
  override readonly name: string = "ConnectionLostError";

  constructor(
    message: string,
    /** How its process ended, where known. */
    readonly exit?: Exit,
  ) {
    super(message);
  }
}

/** The server could not be started, or did not get through the opening handshake. */
export class StartFailedError extends ConnectionLostError {
  override readonly name = "StartFailedError";
}

/** The client is not running: not started yet, shut down or disposed. */
export class ClientClosedError extends Error {
  override readonly name = "ClientClosedError";
}

export function isObject(value: unknown): value is { [member: string]: unknown } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function errorData(code: number, data: unknown): ErrorData {
  if (isObject(data) && typeof data["kind"] === "string") {
    return { retryable: false, ...data, kind: data["kind"] };
  }
  const known = Object.entries(ERROR_CODES).find(([, value]) => value === code);
  return { kind: known?.[0] ?? "internalError", retryable: false };
}
