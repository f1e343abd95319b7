/** Opening a session for writing where that is possible; else, where that is possible, to look at. */

import * as vscode from "vscode";
import type { SessionOpenParams, SessionState } from "timeleap-client";
import { isTimeleapError } from "../../shared/errors.js";
import type { Wire } from "../server/sidecar.js";
import { storageTroubleOf, type StorageTrouble } from "../../shared/text/storageTrouble.js";
import { FIRST_PAGE, type FirstPage } from "./log.js";

export interface OpenedSession {
  readonly state: SessionState;
  /** Of its checkpoints; undefined: nobody has asked, or it could not be had. */
  readonly firstPage?: Promise<FirstPage | undefined>;
  /** What keeps it from being changed though that was asked for. */
  readonly obstacle?: StorageTrouble;
}

/** In Restricted Mode sessions are only looked at. */
export async function openSession(wire: Pick<Wire, "request">, how: SessionOpenParams): Promise<OpenedSession> {
  if (!vscode.workspace.isTrusted) {
    return openWithPage(wire, { ...how, create: false, access: "readOnly" });
  }
  try {
    return await openWithPage(wire, how);
  } catch (error) {
    if (!canBeReadAfter(error, how)) {
      throw error;
    }
    const obstacle = storageTroubleOf(error);
    const state = await openToRead(wire, how, error);
    return obstacle ? { state, obstacle } : { state };
  }
}

/** The page that every view begins with is asked for in the same breath: the server answers both in one go. */
async function openWithPage(wire: Pick<Wire, "request">, how: SessionOpenParams): Promise<OpenedSession> {
  const opening = wire.request("session/open", how);
  const { sessionId } = how;
  if (sessionId === undefined || how.path !== undefined) {
    return { state: await opening };
  }
  const firstPage = wire.request("context/listCheckpoints", { sessionId, ...FIRST_PAGE }).catch(() => undefined);
  return { state: await opening, firstPage };
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
