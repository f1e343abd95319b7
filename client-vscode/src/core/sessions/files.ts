/** The workspace's files as a session keeps them: how two states of them differ, a page at a time. */

import type { FileChange } from "timeleap-client";
import { PAGE, type Read } from "./log.js";
import { Pages } from "./pages.js";

export class SessionFiles {
  private readonly known = new Map<string, Pages<FileChange>>();

  constructor(private readonly read: Read) {}

  /** The files that differ between a snapshot and a later one; without that, the disk. */
  changes(from: string, to: string | undefined): Pages<FileChange> {
    const key = `${from} ${to ?? ""}`;
    const pages = this.known.get(key) ?? new Pages((cursor) => this.page(from, to, cursor));
    this.known.set(key, pages);
    return pages;
  }

  /** Files on the disk may have changed. Snapshots never do. */
  forgetDisk(): void {
    for (const [key, pages] of this.known) {
      if (key.endsWith(" ")) {
        pages.reset();
      }
    }
  }

  private async page(from: string, to: string | undefined, cursor: string | undefined) {
    const { changes, nextCursor } = await this.read("files/diff", {
      from: { snapshot: from },
      to: to === undefined ? {} : { snapshot: to },
      limit: PAGE,
      ...(cursor === undefined ? {} : { cursor }),
    });
    return { entries: changes, nextCursor };
  }
}
