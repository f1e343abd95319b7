/** Which changes of a session this window has asked for: those of others are told. */

import { randomUUID } from "node:crypto";

const TOLD: ReadonlySet<string> = new Set([
  "session/delete",
  "context/revertTo",
  "context/clear",
  "context/compact",
  "context/restoreTimeline",
  "context/deliverDMail",
  "context/undo",
  "context/redo",
]);

export class OwnChanges {
  private readonly ids = new Set<string>();

  /** The params with an id that the notification of the change will carry. */
  mark<P extends object>(method: string, params: P): P {
    if (!TOLD.has(method) || (params as { dryRun?: boolean }).dryRun === true) {
      return params;
    }
    const requestId = (params as { requestId?: string }).requestId ?? randomUUID();
    this.ids.add(requestId);
    return { ...params, requestId };
  }

  has(requestId: string | undefined): boolean {
    return requestId !== undefined && this.ids.has(requestId);
  }
}
