/** A session that was chosen from a list: it need not be open, nor shown. */

import type { SessionInfo } from "timeleap-client";

export class ChosenSession {
  constructor(readonly info: SessionInfo) {}

  get name(): string {
    return this.info.title ?? this.info.sessionId;
  }
}
