/** The timelines of a session: what was set aside, newest first. */

import type { Timeline } from "timeleap-client";
import { Log, PAGE, type Read } from "./log.js";
import { Pages } from "./pages.js";

export class Timelines extends Pages<Timeline> {
  private readonly logs = new Map<string, Log>();

  constructor(private readonly read: Read) {
    super(async (cursor) => {
      const { timelines, nextCursor } = await read("context/listTimelines", { limit: PAGE, ...(cursor === undefined ? {} : { cursor }) });
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
}
