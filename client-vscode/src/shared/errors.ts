/**
 * What the client library throws, told apart by name: importing its classes would load all of it during activation,
 * where nobody has asked for a server yet.
 */

import type { ErrorKind, TimeleapError } from "timeleap-client";

/** An error reply of the server; of one kind, if one is given. */
export function isTimeleapError(error: unknown, kind?: ErrorKind): error is TimeleapError {
  return hasName(error, "TimeleapError") && (kind === undefined || (error as TimeleapError).kind === kind);
}

/** The server went away for good while the request was under way, or was not there. */
export function isConnectionLost(error: unknown): boolean {
  return hasName(error, "ConnectionLostError") || hasName(error, "StartFailedError") || hasName(error, "ClientClosedError");
}

export function isTimeout(error: unknown): boolean {
  return hasName(error, "RequestTimeoutError");
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function hasName(error: unknown, name: string): boolean {
  return error instanceof Error && error.name === name;
}
