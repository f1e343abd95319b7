/** The workspace's files as a session keeps them: how two states of them differ, a page at a time. */

import type { FileChange } from "timeleap-client";
import { PAGE } from "../core/sessions/log.js";
import type { Session } from "../core/sessions/session.js";
import { Pages } from "../core/sessions/pages.js";

const known = new WeakMap<Session, SessionFiles>();

export function filesOf(session: Session): SessionFiles {
  const files = known.get(session) ?? new SessionFiles(session);
  known.set(session, files);
  return files;
}

export class SessionFiles {
  private readonly known = new Map<string, Pages<FileChange>>();
  private seen = 0;

  constructor(private readonly session: Pick<Session, "read" | "filesEpoch">) {}

  /** The files that differ between a snapshot and a later one; without that, the disk. */
  changes(from: string, to: string | undefined): Pages<FileChange> {
    this.forgetDisk();
    const key = `${from} ${to ?? ""}`;
    const pages = this.known.get(key) ?? new Pages((cursor) => this.page(from, to, cursor));
    this.known.set(key, pages);
    return pages;
  }

  /** Files on the disk may have changed. Snapshots never do. */
  private forgetDisk(): void {
    const { filesEpoch } = this.session;
    if (this.seen === filesEpoch) {
      return;
    }
    this.seen = filesEpoch;
    for (const [key, pages] of this.known) {
      if (key.endsWith(" ")) {
        pages.reset();
      }
    }
  }

  private async page(from: string, to: string | undefined, cursor: string | undefined) {
    const { changes, nextCursor } = await this.session.read("files/diff", {
      from: { snapshot: from },
      to: to === undefined ? {} : { snapshot: to },
      limit: PAGE,
      ...(cursor === undefined ? {} : { cursor }),
    });
    return { entries: changes, nextCursor };
  }
}
