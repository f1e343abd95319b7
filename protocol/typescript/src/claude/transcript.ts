/** One key of the store: its log, and the entries that it holds by their uuids. */

import type { TimeleapClient } from "../client.js";
import { blake2b } from "./blake2b.js";
import { uuidOfRecord } from "./entries.js";
import { FollowedLog } from "./followedLog.js";
import { ascii, spaced } from "./jsonValues.js";

/** The `source.kind` of the sessions; their key is a JSON list: project key, session id and, of a sub-agent, subpath. */
export const KIND = "claude-code";

export class Transcript {
  readonly log: FollowedLog;
  /** What stale agents said, by new sessions. */
  readonly forks: Transcript[] = [];
  /** Where an entry without parent goes. */
  route: Transcript = this;
  /** How many wait for it, or work on it. */
  users = 0;
  private last: Promise<unknown> = Promise.resolve();
  private readonly removed = new Set<string>();
  private current = new Set<string>();
  private counted: readonly string[] = [];
  private done = 0; // so many of them are in `current`
  private readonly searched = new Map<string, ReadonlySet<string>>();

  constructor(
    client: TimeleapClient,
    readonly key: readonly string[],
  ) {
    const source = { kind: KIND, key: ascii(spaced(key)) };
    this.log = new FollowedLog(client, sessionIdOf("cc", key), source, uuidOfRecord);
  }

  /** Does `work` when all that was asked before is done. */
  async inTurn<T>(work: () => Promise<T>): Promise<T> {
    this.users += 1;
    const turn = this.last.then(work);
    this.last = turn.catch(() => undefined);
    try {
      return await turn;
    } finally {
      this.users -= 1;
    }
  }

  /** The uuids in the live log. */
  get live(): ReadonlySet<string> {
    if (this.log.kept !== this.counted) {
      this.current.forEach((uuid) => this.removed.add(uuid));
      this.counted = this.log.kept;
      this.done = 0;
      this.current = new Set();
    }
    for (; this.done < this.counted.length; this.done++) {
      this.current.add(this.counted[this.done]!);
    }
    return this.current;
  }

  /** Whether the log once had this entry, and has it no more. */
  async wasRemoved(entry: string): Promise<boolean> {
    return !this.live.has(entry) && (this.removed.has(entry) || (await this.timelineOf(entry)) !== undefined);
  }

  /** The newest timeline that holds an entry. */
  async timelineOf(entry: string): Promise<string | undefined> {
    if (this.log.timelines === 0) {
      return undefined;
    }
    for (const timeline of await this.log.timelineIds()) {
      let uuids = this.searched.get(timeline);
      if (!uuids) {
        const records = await this.log.read(timeline);
        uuids = new Set(records.map(uuidOfRecord).filter((uuid) => uuid !== undefined));
        this.searched.set(timeline, uuids);
      }
      if (uuids.has(entry)) {
        return timeline;
      }
    }
    return undefined;
  }
}

/** The id of the session that keeps what another program calls `key`; two keys never get the same one. */
export function sessionIdOf(prefix: string, key: readonly string[]): string {
  const parts = key.flatMap((part) => {
    const bytes = utf8(part);
    return [Buffer.from(`${bytes.length}:`), bytes];
  });
  return `${prefix}-${Buffer.from(blake2b(Buffer.concat(parts), 12)).toString("hex")}`;
}

/** UTF-8 in which halves of surrogate pairs stay apart: `Buffer` makes the same character of all of them. */
function utf8(text: string): Buffer {
  const characters = [...text].map((character) => {
    const unit = character.length === 1 ? character.charCodeAt(0) : 0;
    const half = unit >= 0xd800 && unit <= 0xdfff;
    return half ? Buffer.from([0xed, 0x80 | ((unit >> 6) & 0x3f), 0x80 | (unit & 0x3f)]) : Buffer.from(character);
  });
  return Buffer.concat(characters);
}
