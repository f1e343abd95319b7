/**
 * The log of one session as the adapter follows it: read once, then only what is new, and told from one that was rewritten.
 *
 * Other windows change the log at any time. What the adapter writes carries the head that it knows, so that it lands where
 * the adapter believes it lands, or nowhere.
 */

import { isDeepStrictEqual } from "node:util";
import type { TimeleapClient } from "../client.js";
import type { Disposable } from "../emitter.js";
import { TimeleapError } from "../errors.js";
import type { GetRecordsParams, GetRecordsResult, NewItem, SessionOpenParams, SessionState } from "../generated/types.js";
import type { Json } from "./jsonValues.js";

/** The kinds of `context/didChange` that leave in place what was in the log. */
const APPENDING = new Set(["messagesAppended", "checkpointCreated", "tokenCountUpdated", "systemPromptSet"]);
const PAGE = 1000;
/** The member that the server adds to records. */
const OURS = "_tl";

/** Somebody else changed the log since it was read last. It was read again; decide again what to write. */
export class LogMovedError extends Error {}

export class FollowedLog {
  /** The head of the log as far as it is known. */
  head = "";
  /** What is kept of the records of the live log, in their order; another list after a rewrite. */
  kept: string[] = [];
  /** How many timelines the session had when it was read last. */
  timelines = 0;
  title: string | null = null;
  private tail: Json | undefined;
  private lines = 0;
  private readHead = "";
  private moved = false;
  /** The records as they are read, while somebody wants them. */
  private whole: Json[] | undefined;
  private readonly listeners: Disposable[] = [];

  /** @param keep What to keep of each record in memory. */
  constructor(
    private readonly client: TimeleapClient,
    readonly sessionId: string,
    private readonly source: { readonly kind: string; readonly key: string },
    private readonly keep: (record: Json) => string | undefined,
  ) {}

  get isOpen(): boolean {
    return this.listeners.length > 0;
  }

  /**
   * Opens it, without reading it yet; false where there is no such session and none is to be made.
   *
   * @param traits Params of `session/open` for a new one; undefined: none is made.
   */
  async open(traits?: Partial<SessionOpenParams>): Promise<boolean> {
    const { sessionId } = this;
    let state: SessionState;
    try {
      const made = traits ? { ...traits, source: this.source } : {};
      state = await this.client.request("session/open", { sessionId, create: traits !== undefined, ...made });
    } catch (error) {
      if (!traits && error instanceof TimeleapError && error.kind === "sessionNotFound") {
        return false;
      }
      throw error;
    }
    this.listeners.push(
      this.client.onNotification("context/didChange", (change) => {
        this.moved ||= change.sessionId === sessionId && !APPENDING.has(change.kind);
      }),
      this.client.on("restarted", () => (this.moved = true)), // what changed meanwhile was not told
    );
    this.beginAgain();
    this.head = state.head;
    this.title = state.title;
    return true;
  }

  async close(): Promise<void> {
    if (this.isOpen) {
      this.listeners.splice(0).forEach((listener) => listener.dispose());
      await this.client.request("session/close", { sessionId: this.sessionId });
    }
  }

  /** Reads what is new in the log; all of it, if it was rewritten. */
  async refresh(): Promise<void> {
    let state = await this.state();
    for (;;) {
      this.timelines = state.context.timelines;
      this.title = state.title;
      if (state.head === this.readHead && !this.moved) {
        return;
      }
      try {
        if (this.moved || !(await this.grew())) {
          this.beginAgain();
          this.whole &&= [];
        }
        // Read after the head was asked for: what comes in between moves the head, and the next change finds out.
        for (const { line, record } of await this.records(this.lines)) {
          this.take(line, record);
          this.whole?.push(record);
        }
      } catch (error) {
        if (!(error instanceof LogMovedError)) {
          throw error;
        }
        this.moved = true;
        state = await this.state();
        continue;
      }
      this.head = this.readHead = state.head;
      return;
    }
  }

  /** Reads all of the log, as `refresh` does where it was rewritten; returns its records. */
  async refreshWhole(): Promise<Json[]> {
    this.beginAgain();
    this.whole = [];
    try {
      await this.refresh();
      return this.whole;
    } finally {
      this.whole = undefined;
    }
  }

  /**
   * Appends messages, opaque records, checkpoints and token counts, as `context/appendMessage` takes them, as one step.
   * The last is no checkpoint: what its record says is the server's to know.
   *
   * @throws LogMovedError Nothing was written.
   */
  async append(items: readonly Json[]): Promise<void> {
    const { sessionId, head: expectedHead } = this;
    const messages = items as unknown as NewItem[];
    await this.change(this.client.request("context/appendMessage", { sessionId, expectedHead, messages }));
    for (const item of items) {
      // They follow what is known, else they would have been refused.
      this.take(this.lines, JSON.parse(JSON.stringify(recordOf(item))) as Json); // as the log has it, and ours alone
    }
    this.readHead = this.head;
  }

  async setTitle(title: string): Promise<void> {
    this.title = title;
    await this.client.request("session/setTitle", { sessionId: this.sessionId, title });
  }

  /** All records of the live log, or of a timeline, without what the server added to them. */
  async read(timelineId?: string): Promise<Json[]> {
    for (;;) {
      try {
        return (await this.records(0, timelineId)).map(({ record }) => record);
      } catch (error) {
        if (!(error instanceof LogMovedError)) {
          throw error;
        }
      }
    }
  }

  /** The timelines, newest first. */
  async timelineIds(): Promise<string[]> {
    const found: string[] = [];
    let cursor: string | undefined;
    do {
      const where = cursor === undefined ? {} : { cursor };
      const page = await this.client.request("context/listTimelines", { sessionId: this.sessionId, limit: PAGE, ...where });
      found.push(...page.timelines.map((timeline) => timeline.timelineId));
      cursor = page.nextCursor;
    } while (cursor !== undefined);
    return found;
  }

  private state(): Promise<SessionState> {
    return this.client.request("session/getState", { sessionId: this.sessionId });
  }

  private async change<R extends { head: string }>(changing: Promise<R>): Promise<R> {
    try {
      const result = await changing;
      this.head = result.head;
      return result;
    } catch (error) {
      if (!isModified(error)) {
        throw error;
      }
      await this.refresh();
      throw new LogMovedError(error.message, { cause: error });
    }
  }

  /** Whether the last record that is known still stands where it stood. */
  private async grew(): Promise<boolean> {
    if (this.tail === undefined) {
      return true;
    }
    const where = { from: this.lines - 1, to: this.lines };
    const { records } = await this.client.request("context/getRecords", { sessionId: this.sessionId, ...where });
    return records.length === 1 && isDeepStrictEqual(bare(records[0]!.record), this.tail);
  }

  /**
   * The records from line `start` on with their lines, all of one state of the log.
   *
   * @throws LogMovedError The log was rewritten meanwhile.
   */
  private async records(start: number, timelineId?: string): Promise<{ line: number; record: Json }[]> {
    const found: { line: number; record: Json }[] = [];
    const { sessionId } = this;
    let where: Omit<GetRecordsParams, "sessionId"> | undefined = { from: start, ...(timelineId === undefined ? {} : { timelineId }) };
    while (where) {
      try {
        const page: GetRecordsResult = await this.client.request("context/getRecords", { sessionId, limit: PAGE, ...where });
        for (const { line, record } of page.records) {
          found.push({ line, record: bare(record) });
        }
        where = page.nextCursor === undefined ? undefined : { cursor: page.nextCursor };
      } catch (error) {
        throw isModified(error) ? new LogMovedError(error.message, { cause: error }) : error;
      }
    }
    return found;
  }

  private take(line: number, record: Json): void {
    this.lines = line + 1;
    this.tail = record;
    const kept = this.keep(record);
    if (kept !== undefined) {
      this.kept.push(kept);
    }
  }

  private beginAgain(): void {
    this.kept = [];
    this.tail = undefined;
    this.lines = 0;
    this.readHead = "";
    this.moved = false;
  }
}

function isModified(error: unknown): error is TimeleapError {
  return error instanceof TimeleapError && error.kind === "contentModified";
}

/** The record that an item of an append becomes, as far as it can be told. */
function recordOf(item: Json): unknown {
  if ("role" in item) {
    return item;
  }
  return "record" in item ? item["record"] : "tokenCount" in item ? { role: "_usage", token_count: item["tokenCount"] } : { role: "_checkpoint" };
}

function bare(record: Json): Json {
  const { [OURS]: _, ...rest } = record;
  return rest;
}
