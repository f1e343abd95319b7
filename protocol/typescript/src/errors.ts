/** What can go wrong on this side of the wire, and what the other side says went wrong. */

import { ResponseError } from "vscode-jsonrpc/node";
import { ERROR_CODES, type ErrorKind } from "./generated/methods.js";
import type { ErrorData } from "./generated/types.js";

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

  /** The error reply behind a rejected request; other errors are returned as they are. */
  static from(error: unknown): unknown {
    if (!(error instanceof ResponseError)) {
      return error;
    }
    return new TimeleapError(error.message, error.code, errorData(error.code, error.data));
  }
}

/** No reply came in time. Whether the request took effect is not known: repeat it with the same `requestId`. */
export class RequestTimeoutError extends Error {
  override readonly name = "RequestTimeoutError";

  constructor(method: string, milliseconds: number) {
    super(`${method} was not answered within ${milliseconds} ms`);
  }
}

/** The connection to the server is lost for good; start another client. */
export class ConnectionClosedError extends Error {
  override readonly name = "ConnectionClosedError";
}

function errorData(code: number, data: unknown): ErrorData {
  if (typeof data === "object" && data !== null && "kind" in data && typeof data.kind === "string") {
    return { retryable: false, ...data, kind: data.kind };
  }
  const known = Object.entries(ERROR_CODES).find(([, value]) => value === code);
  return { kind: known?.[0] ?? "internalError", retryable: false };
}
