/** What two states of a conversation have in common. */

import type { DiffPoint, HistoryMessage } from "timeleap-client";
import type { Session } from "../../core/sessions/session.js";
import type { Log } from "../../core/sessions/log.js";

/** One side: the first `end` messages of a log. */
export interface Side {
  readonly timelineId?: string;
  readonly end: number;
}

/** How many messages each side has after the common ones; undefined: nobody has counted. */
export interface Difference {
  readonly common: number;
  readonly removed?: number;
  readonly added?: number;
}

/** What the server says of a state and the present. */
export async function differenceByServer(session: Session, from: DiffPoint): Promise<Difference> {
  const { common, removedCount, addedCount } = await session.request("context/diff", { from, to: {}, limit: 1, maxBytes: 1 });
  return { common, removed: removedCount, added: addedCount };
}

const PAGE = 200;

/**
 * How many messages at the beginning of both sides are the same. What a shared checkpoint says is believed, since the uid of a
 * checkpoint stands for all that was before it; from there on messages are compared, a page at a time.
 */
export async function commonMessages(session: Session, one: Side, other: Side, known: number): Promise<number> {
  const end = Math.min(one.end, other.end);
  let common = Math.min(known, end);
  while (common < end) {
    const [these, those] = await Promise.all([page(session, one, common, end), page(session, other, common, end)]);
    const length = Math.min(these.length, those.length);
    const same = these.findIndex((entry, index) => index >= length || !isSame(entry, those[index]));
    if (length === 0 || (same !== -1 && same < length)) {
      return common + Math.max(0, same);
    }
    common += length;
  }
  return common;
}

/** The messages before the newest checkpoint that both logs have, among those that are loaded. */
export async function sharedByCheckpoints(one: Log, other: Log): Promise<number> {
  const [these, those] = await Promise.all([one.spans(), other.spans()]);
  const known = new Set(those.map(({ checkpoint }) => checkpoint.uid));
  return these.find(({ checkpoint }) => known.has(checkpoint.uid))?.start ?? 0;
}

async function page(session: Session, side: Side, from: number, end: number): Promise<HistoryMessage[]> {
  const of = side.timelineId === undefined ? {} : { timelineId: side.timelineId };
  const { messages } = await session.request("context/getHistory", { from, to: end, limit: PAGE, ...of });
  return messages;
}

/** Logs keep the order of keys, so a message that was carried over has the same text. */
function isSame(one: HistoryMessage, other: HistoryMessage | undefined): boolean {
  return other !== undefined && JSON.stringify(one.message) === JSON.stringify(other.message);
}
