/** The timelines of a session: what was set aside, newest first, and what of it the present has not. */

import type { Message, Timeline } from "timeleap-client";
import { Log, type Read } from "../core/sessions/log.js";
import type { Session } from "../core/sessions/session.js";
import { Pages } from "../core/sessions/pages.js";

/** What a timeline has after the messages that the present begins with, too. */
export interface Branch {
  /** Messages that both begin with. */
  readonly common: number;
  readonly lost: number;
  readonly first?: Message;
  readonly last?: Message;
}

/** A timeline, and what it has that the present has not; undefined: not known. */
export interface Aside {
  readonly timeline: Timeline;
  readonly branch: Branch | undefined;
}

function sameCounts(one: Timeline, other: Timeline): boolean {
  return one.messageCount === other.messageCount && one.checkpointCount === other.checkpointCount;
}

/** Timelines of a page: each is compared with the present, and so many fit on a screen. */
export const TIMELINES_PAGE = 30;

const known = new WeakMap<Session, { readonly timelines: Timelines; seen: number }>();

/** Those of a session: what became untrue since this was asked the last time is forgotten. */
export function timelinesOf(session: Session): Timelines {
  const entry = known.get(session) ?? { timelines: new Timelines(session.read), seen: session.kept.length };
  known.set(session, entry);
  const common = session.kept.slice(entry.seen);
  if (common.length > 0) {
    entry.seen = session.kept.length;
    entry.timelines.presentChanged(Math.min(...common));
    entry.timelines.reset();
  }
  return entry.timelines;
}

/** What was set aside and is a branch for good: what Redo reaches is the way back. */
export async function setAside(session: Session): Promise<Aside[]> {
  const { timelines, canRedo = 0 } = session.state.context;
  if (timelines === 0) {
    return [];
  }
  const steps = canRedo === 0 ? [] : (await session.request("context/redo", { steps: canRedo, dryRun: true })).steps;
  return timelinesOf(session).setAside(steps.flatMap(({ timelineId }) => timelineId ?? []));
}

export class Timelines extends Pages<Timeline> {
  private readonly logs = new Map<string, Log>();
  private readonly branches = new Map<string, { branch?: Branch; readonly asked: Promise<Branch | undefined> }>();
  /** Whether two of them have the same messages, by both ids. */
  private readonly alike = new Map<string, Promise<boolean>>();

  constructor(private readonly read: Read) {
    super(async (cursor) => {
      const { timelines, nextCursor } = await read("context/listTimelines", { limit: TIMELINES_PAGE, ...(cursor === undefined ? {} : { cursor }) });
      return { entries: timelines, nextCursor };
    });
  }

  /** The log a timeline holds. It never changes, so its pages are kept. */
  log(timeline: Timeline): Log {
    const { timelineId, messageCount } = timeline;
    const log = this.logs.get(timelineId) ?? new Log({ read: this.read, timelineId, total: () => messageCount });
    this.logs.set(timelineId, log);
    return log;
  }

  /** Those that are loaded and differ in their messages, the newest of each; with what each has that the present has not. */
  async distinct(): Promise<Aside[]> {
    const all = await this.list();
    const branches = await Promise.all(all.map((timeline) => this.branch(timeline)));
    const kept: Aside[] = [];
    for (const [index, timeline] of all.entries()) {
      const branch = branches[index];
      const rivals = kept.filter((one) => branch !== undefined && one.branch?.common === branch.common && sameCounts(one.timeline, timeline));
      const joined = await Promise.all(rivals.map((one) => this.sameMessages(one.timeline, timeline)));
      if (!joined.includes(true)) {
        kept.push({ timeline, branch });
      }
    }
    return kept;
  }

  /** Those of `distinct` that have something which the present has not, and that Redo does not bring back. */
  async setAside(redoable: readonly string[]): Promise<Aside[]> {
    const all = await this.distinct();
    return all.filter(({ timeline, branch }) => branch?.lost !== 0 && !redoable.includes(timeline.timelineId));
  }

  /** What is known of it already. */
  known({ timelineId }: Timeline): Branch | undefined {
    return this.branches.get(timelineId)?.branch;
  }

  /** Another log is the present one, which begins with that many messages of the one before it. */
  presentChanged(common: number): void {
    for (const [id, { branch }] of this.branches) {
      // What parts from both before that place parts from both in the same place.
      if (branch === undefined || branch.common >= common) {
        this.branches.delete(id);
      }
    }
  }

  private async branch(timeline: Timeline): Promise<Branch | undefined> {
    const { timelineId } = timeline;
    const known = this.branches.get(timelineId);
    if (known) {
      return known.asked;
    }
    // A server of an earlier version does not compare; then a timeline is shown whole.
    const entry: { branch?: Branch; readonly asked: Promise<Branch | undefined> } = { asked: this.compare(timeline).catch(() => undefined) };
    this.branches.set(timelineId, entry);
    const branch = await entry.asked;
    if (branch) {
      entry.branch = branch;
    }
    return branch;
  }

  private async compare({ timelineId, messageCount }: Timeline): Promise<Branch> {
    const { common, removed, removedCount } = await this.read("context/diff", { from: { timelineId }, to: {}, limit: 1, maxBytes: 1 });
    const [first] = removed;
    if (!first) {
      return { common, lost: removedCount };
    }
    const [last] = removedCount < 2 ? [] : (await this.read("context/getHistory", { timelineId, from: messageCount - 1, limit: 1 })).messages;
    return { common, lost: removedCount, first: first.message, ...(last ? { last: last.message } : {}) };
  }

  private sameMessages(one: Timeline, other: Timeline): Promise<boolean> {
    const key = [one.timelineId, other.timelineId].sort().join(" ");
    const known =
      this.alike.get(key) ??
      this.read("context/diff", { from: { timelineId: one.timelineId }, to: { timelineId: other.timelineId }, limit: 1, maxBytes: 1 }).then(
        ({ removedCount, addedCount }) => removedCount + addedCount === 0,
        () => false,
      );
    this.alike.set(key, known);
    return known;
  }
}
