/** Opening a session for writing where that is possible; else, where that is possible, to look at. */

import * as vscode from "vscode";
import type { SessionOpenParams, SessionState } from "timeleap-client";
import { isTimeleapError } from "../../shared/errors.js";
import type { Wire } from "../server/sidecar.js";
import { storageTroubleOf, type StorageTrouble } from "../../shared/text/storageTrouble.js";

export interface OpenedSession {
  readonly state: SessionState;
  /** Whether it can be looked at only because of Restricted Mode. */
  readonly restricted?: boolean;
  /** What keeps it from being changed though that was asked for. */
  readonly obstacle?: StorageTrouble;
}

/** In Restricted Mode sessions are only looked at. */
export async function openSession(wire: Pick<Wire, "request">, how: SessionOpenParams): Promise<OpenedSession> {
  if (!vscode.workspace.isTrusted) {
    return { state: await wire.request("session/open", { ...how, create: false, access: "readOnly" }), restricted: true };
  }
  try {
    return { state: await wire.request("session/open", how) };
  } catch (error) {
    if (!canBeReadAfter(error, how)) {
      throw error;
    }
    const obstacle = storageTroubleOf(error);
    const state = await openToRead(wire, how, error);
    return obstacle ? { state, obstacle } : { state };
  }
}

/** Whether reading may work where writing did not. */
export function canBeReadAfter(error: unknown, { access }: SessionOpenParams): boolean {
  if (access === "readOnly") {
    return false;
  }
  // Another program writes it and cannot be gone through: what it writes can still be followed.
  return (isTimeleapError(error, "sessionLocked") && access === undefined) || storageTroubleOf(error) !== undefined;
}

/** What stood in the way of writing is what there is to say, if it cannot be read either: a session that was to be made is not there. */
async function openToRead(wire: Pick<Wire, "request">, how: SessionOpenParams, because: unknown): Promise<SessionState> {
  if (how.sessionId === undefined && how.path === undefined) {
    throw because;
  }
  const { sessionId, path } = how;
  const which = path === undefined ? { ...(sessionId === undefined ? {} : { sessionId }), create: false } : { path };
  try {
    return await wire.request("session/open", { ...which, access: "readOnly" });
  } catch (error) {
    throw isTimeleapError(because, "sessionLocked") ? error : because;
  }
}
