/** The pages of a log, live or set aside, that somebody has asked for so far. */

import type { Checkpoint, HistoryMessage, Methods } from "timeleap-client";
import { Pages } from "./pages.js";
import type { SpanNews } from "../../shared/spanSummary.js";

export const PAGE = 100;

/** Reads from one session. */
export type Read = <M extends "context/listCheckpoints" | "context/getHistory" | "context/listTimelines" | "context/diff" | "files/diff">(
  method: M,
  params: Omit<Methods[M]["params"], "sessionId">,
) => Promise<Methods[M]["result"]>;

export interface LogOptions {
  readonly read: Read;
  /** Absent: the live log. */
  readonly timelineId?: string;
  /** How many messages there are now. */
  readonly total: () => number;
}

/** A checkpoint and the messages between it and the next. */
export interface Span {
  readonly checkpoint: Checkpoint;
  /** The one after it; undefined: it is the newest. */
  readonly next: Checkpoint | undefined;
  readonly start: number;
  readonly end: number;
}

export class Log {
  private readonly pages: Pages<Checkpoint>;
  /** Written since the log was read, newest first. The first page may have some of them too. */
  private arrived: Checkpoint[] = [];
  private told = new Map<string, SpanNews>();
  private history = new Map<number, HistoryMessage[]>();
  /** Changes when what was read is no longer true. */
  private epoch = 0;
  /** Checkpoints that are asked for at once. */
  limit = PAGE;

  constructor(private readonly options: LogOptions) {
    this.pages = new Pages(async (cursor) => {
      const params = { limit: this.limit, order: "desc" as const, ...(cursor === undefined ? {} : { cursor }), ...this.of };
      const { checkpoints, nextCursor } = await options.read("context/listCheckpoints", params);
      return { entries: checkpoints, nextCursor };
    });
  }

  get timelineId(): string | undefined {
    return this.options.timelineId;
  }

  /** Whether there are checkpoints older than the loaded ones. */
  get hasMore(): boolean {
    return this.pages.hasMore;
  }

  /** What is loaded, newest first; the first page is loaded if nothing is. */
  async spans(): Promise<Span[]> {
    const paged = await this.pages.list();
    const known = new Set(paged.map((checkpoint) => checkpoint.uid));
    const all = [...this.arrived.filter((checkpoint) => !known.has(checkpoint.uid)), ...paged].map((checkpoint) => this.asTold(checkpoint));
    return all.map((checkpoint, index) => ({
      checkpoint,
      next: all[index - 1],
      start: checkpoint.messageCount,
      end: all[index - 1]?.messageCount ?? this.options.total(),
    }));
  }

  /** The messages before the oldest loaded checkpoint; undefined while older ones are not loaded, or if there are none. */
  beginning(spans: readonly Span[]): { readonly start: 0; readonly end: number } | undefined {
    const end = spans.at(-1)?.start ?? this.options.total();
    return !this.hasMore && end > 0 ? { start: 0, end } : undefined;
  }

  /** Loads one more page of older checkpoints. */
  more(): Promise<void> {
    return this.pages.more();
  }

  /**
   * The first messages of a range, `count` of them if there are as many; without a count what one page has. What is not known
   * yet is asked for page by page.
   */
  async messages(start: number, end: number, count?: number): Promise<HistoryMessage[]> {
    const wanted = Math.min(count ?? PAGE, end - start);
    let known = this.history.get(start) ?? [];
    while (known.length < wanted) {
      const { epoch } = this;
      const from = start + known.length;
      const { messages } = await this.options.read("context/getHistory", { from, to: end, limit: Math.min(PAGE, end - from), ...this.of });
      known = [...known, ...messages];
      if (epoch === this.epoch) {
        this.history.set(start, known);
      }
      if (count === undefined || messages.length === 0) {
        return known;
      }
    }
    return known.slice(0, wanted);
  }

  /** Those of a range that have been read; nothing is asked for. */
  read(start: number, end: number): readonly HistoryMessage[] {
    return (this.history.get(start) ?? []).slice(0, end - start);
  }

  /** A checkpoint was written at the end. */
  add(checkpoint: Checkpoint): void {
    this.arrived.unshift(checkpoint);
  }

  /** The messages after a checkpoint have become others. */
  learn(uid: string, news: SpanNews): void {
    this.told.set(uid, news);
  }

  /** Forgets everything: another log has taken this one's place. */
  reset(): void {
    this.epoch += 1;
    this.pages.reset();
    this.arrived = [];
    this.told = new Map();
    this.history = new Map();
  }

  private asTold(checkpoint: Checkpoint): Checkpoint {
    const told = this.told.get(checkpoint.uid);
    if (!told) {
      return checkpoint;
    }
    const { name, ...rest } = checkpoint;
    const { name: happened, ...news } = told;
    const called = checkpoint.label === undefined ? happened : name; // a label is the name, whatever happens
    return { ...rest, ...news, ...(called === undefined ? {} : { name: called }) };
  }

  private get of(): { timelineId?: string } {
    return this.options.timelineId === undefined ? {} : { timelineId: this.options.timelineId };
  }
}
