/** The store itself: which entries go where, and what is left of them after a revert. */

import { randomUUID } from "node:crypto";
import { isAbsolute } from "node:path";
import { pathToFileURL } from "node:url";
import type { TimeleapClient } from "../client.js";
import type { SessionInfo, SessionOpenParams } from "../generated/types.js";
import { entriesOf, isMessage, itemsOf, labelOf, parentOf, titleOf, tokensOf, uuidOf, type Item } from "./entries.js";
import { LogMovedError, type FollowedLog } from "./followedLog.js";
import { isObject, type Json } from "./jsonValues.js";
import type { FoldSessionSummary, SessionKey, SessionStoreEntry, SessionSummaryEntry } from "./sdkTypes.js";
import { KIND, Transcript } from "./transcript.js";

/** JSON text of one request, which stays below the largest frame; a batch of the SDK is rarely more than 1 MiB. */
const MAX_BATCH_CHARACTERS = 8 * 1024 * 1024;
/** Transcripts that are open at a time; the one that was used longest ago is closed for another. */
const MAX_OPEN = 64;
const PAGE = 1000;

/** An agent goes on from what was reverted under it; nothing of that was stored. */
export class StaleAgentError extends Error {
  override readonly name = "StaleAgentError";
}

/** Everything was reverted: there is nothing left that could be resumed. */
export class RevertedError extends Error {
  override readonly name = "RevertedError";
}

/** Where what a stale agent said was stored. */
export interface Continuation {
  readonly projectKey: string;
  /** The agent's session, which stays as it was reverted. */
  readonly sessionId: string;
  /** The session id of the new one; it can be resumed like any other. */
  readonly continuedAs: string;
  readonly title: string;
}

export interface ClaudeSessionStoreOptions {
  /**
   * What to do where an agent still runs whose log was reverted by another window: `fork` (default) stores what it says in
   * a new session, `refuse` rejects with `StaleAgentError`, which the SDK reports. Never is it put into the reverted log.
   */
  readonly onStale?: "fork" | "refuse";
  /** Called with each new session that `fork` makes. */
  readonly onContinuation?: (continuation: Continuation) => void;
  /** The SDK's own: with it the store answers `listSessionSummaries`, without it the SDK reads the sessions itself. */
  readonly foldSessionSummary?: FoldSessionSummary;
  /** How many transcripts are open at a time. Default: 64. */
  readonly maxOpen?: number;
  /** The JSON text of one request and of one record at most, in characters. Default: 8 and 4 MiB. */
  readonly maxCharacters?: { readonly batch?: number; readonly record?: number };
}

type Key = readonly string[];

/** What `options.sessionStore` of the Claude Agent SDK takes. */
export class ClaudeSessionStore {
  /** What the SDK derives of each session for its lists, of the entries that are kept; only with `foldSessionSummary`. */
  readonly listSessionSummaries?: (projectKey: string) => Promise<SessionSummaryEntry[]>;
  private readonly transcripts = new Map<string, Transcript>();
  private readonly summaries = new Map<string, { updatedAt: string; summary: SessionSummaryEntry }>();

  /** @param client A running client; it has to run as long as the store is used. */
  constructor(
    private readonly client: TimeleapClient,
    private readonly options: ClaudeSessionStoreOptions = {},
  ) {
    const fold = options.foldSessionSummary;
    if (fold) {
      this.listSessionSummaries = (projectKey) => this.summarized(projectKey, fold);
    }
  }

  /**
   * Stores a batch of entries; those whose uuid is known are left out, since the SDK repeats batches.
   *
   * @throws StaleAgentError See `onStale`; any other error: nothing of the rest was stored, the SDK tries again.
   */
  async append(key: SessionKey, entries: SessionStoreEntry[]): Promise<void> {
    if (entries.length === 0) {
      return;
    }
    await this.using(partsOf(key), async (transcript) => {
      if (!transcript.log.isOpen) {
        await transcript.log.open(traitsOf(entries));
        await transcript.log.refresh();
      }
      await this.add(transcript, entries);
    });
  }

  /**
   * All entries of the live log; null for a key that was never written, or was deleted.
   *
   * @throws RevertedError Everything was reverted.
   */
  async load(key: SessionKey): Promise<SessionStoreEntry[] | null> {
    return this.using(partsOf(key), async (transcript) => {
      if (!(await isThere(transcript))) {
        return null;
      }
      transcript.route = transcript;
      const entries = [...entriesOf(await transcript.log.refreshWhole())] as SessionStoreEntry[];
      if (transcript.log.timelines > 0 && !entries.some(isMessage)) {
        // Without entries the SDK would resume from its own local copy, which knows of no revert.
        const what = `all of session ${key.sessionId} was reverted`;
        throw new RevertedError(`${what}: start a new one, or undo the revert in Timeleap`);
      }
      return entries.length > 0 ? entries : null;
    });
  }

  /** The sessions of a project, sub-agents left out. */
  async listSessions(projectKey: string): Promise<{ sessionId: string; mtime: number }[]> {
    const sessions: { sessionId: string; mtime: number }[] = [];
    for await (const { key, info } of this.listed(projectKey)) {
      if (key.length === 2) {
        sessions.push({ sessionId: key[1]!, mtime: Date.parse(info.updatedAt) });
      }
    }
    return sessions;
  }

  /** Moves a session, with its sub-agents, to Timeleap's trash; or the one sub-agent that the key names. */
  async delete(key: SessionKey): Promise<void> {
    const wanted = partsOf(key);
    for await (const { key: found, info } of this.listed(key.projectKey)) {
      if (found[1] === wanted[1] && (wanted.length === 2 || found[2] === wanted[2])) {
        const transcript = this.transcripts.get(nameOf(found));
        this.transcripts.delete(nameOf(found));
        await transcript?.inTurn(() => transcript.log.close());
        await this.client.request("session/delete", { sessionId: info.sessionId });
      }
    }
  }

  /** The subpaths of a session: its sub-agents. */
  async listSubkeys(key: { projectKey: string; sessionId: string }): Promise<string[]> {
    const subpaths: string[] = [];
    for await (const { key: found } of this.listed(key.projectKey)) {
      if (found[1] === key.sessionId && found[2] !== undefined) {
        subpaths.push(found[2]);
      }
    }
    return subpaths;
  }

  private async summarized(projectKey: string, fold: FoldSessionSummary): Promise<SessionSummaryEntry[]> {
    const found: SessionSummaryEntry[] = [];
    for await (const { key, info } of this.listed(projectKey)) {
      if (key.length !== 2) {
        continue;
      }
      let known = this.summaries.get(info.sessionId);
      if (known?.updatedAt !== info.updatedAt) {
        const entries = await this.entries(key);
        const summary = fold(undefined, { projectKey, sessionId: key[1]! }, entries as SessionStoreEntry[]);
        known = { updatedAt: info.updatedAt, summary };
        this.summaries.set(info.sessionId, known);
      }
      found.push({ ...known.summary, mtime: Date.parse(info.updatedAt) });
    }
    return found;
  }

  private async add(transcript: Transcript, entries: readonly unknown[]): Promise<void> {
    let left = entries;
    while (left.length > 0) {
      try {
        const known = [transcript, ...transcript.forks].map((each) => each.live);
        const isNew = (entry: unknown): boolean => {
          const uuid = uuidOf(entry);
          return uuid === undefined || !known.some((live) => live.has(uuid));
        };
        const added = left.filter(isNew);
        const named = (entry: unknown): boolean => uuidOf(entry) !== undefined;
        if (left.some(named) && !added.some(named)) {
          return; // the whole batch is there: the answer to an earlier attempt got lost
        }
        left = added;
        const { target, count } = await this.targetOf(transcript, left);
        await this.write(target.log, left.slice(0, count));
        transcript.route = target;
        left = left.slice(count);
      } catch (error) {
        if (!(error instanceof LogMovedError)) {
          throw error;
        }
      }
    }
  }

  /** Where the first of the entries belong, and how many of them go there together. */
  private async targetOf(transcript: Transcript, entries: readonly unknown[]): Promise<{ target: Transcript; count: number }> {
    const batch = new Set<string>();
    let target: Transcript | undefined;
    for (let count = 0; count < entries.length; count++) {
      const entry = entries[count];
      const parent = parentOf(entry);
      const goesOn = parent === undefined || batch.has(parent);
      const home: Transcript = goesOn ? (target ?? transcript.route) : await this.homeOf(transcript, parent);
      if (target && home !== target) {
        return { target, count };
      }
      target = home;
      const uuid = uuidOf(entry);
      if (uuid !== undefined) {
        batch.add(uuid);
      }
    }
    return { target: target ?? transcript.route, count: entries.length };
  }

  /**
   * The transcript that an entry with this parent continues.
   *
   * @throws StaleAgentError It is one that was reverted, and that is to be refused.
   */
  private async homeOf(transcript: Transcript, parent: string): Promise<Transcript> {
    const known = [transcript, ...transcript.forks].find((each) => each.live.has(parent));
    if (known) {
      return known;
    }
    if (!(await transcript.wasRemoved(parent))) {
      return transcript; // of a past that was never stored here
    }
    if (this.options.onStale === "refuse") {
      const what = `the agent of session ${transcript.key[1]} goes on from what was reverted`;
      throw new StaleAgentError(`${what}: stop it, and resume the session`);
    }
    const fork = await this.forkOf(transcript, parent);
    transcript.forks.push(fork);
    return fork;
  }

  /** A new session with the log that an agent goes on from. */
  private async forkOf(transcript: Transcript, parent: string): Promise<Transcript> {
    const [projectKey = "", sessionId = "", ...subpath] = transcript.key;
    const continuedAs = randomUUID();
    const title = `${transcript.log.title ?? sessionId} (continued before revert)`;
    const fork = new Transcript(this.client, [projectKey, continuedAs, ...subpath]);
    await fork.log.open({ title });
    await fork.log.refresh();
    const timeline = await transcript.timelineOf(parent);
    if (timeline !== undefined) {
      await this.add(fork, [...entriesOf(await transcript.log.read(timeline))]);
    }
    this.options.onContinuation?.({ projectKey, sessionId, continuedAs, title });
    return fork;
  }

  /**
   * Writes entries as one step, with the checkpoint of each prompt among them and the tokens that the model reported.
   *
   * @throws LogMovedError They were not written.
   */
  private async write(log: FollowedLog, entries: readonly unknown[]): Promise<void> {
    const { batch = MAX_BATCH_CHARACTERS, record } = this.options.maxCharacters ?? {};
    const labels = labelsOf(entries);
    const items = entries.flatMap((entry, at) => {
      const label = labels.get(at);
      const before: Item[] = label === undefined ? [] : [{ item: { checkpoint: { label } }, size: label.length }];
      return [...before, ...itemsOf(entry, record)];
    });
    const tokenCount = tokensOf(entries);
    if (tokenCount !== undefined) {
      items.push({ item: { tokenCount }, size: 0 });
    }
    for (const chunk of chunksOf(items, batch)) {
      await log.append(chunk);
    }
    const title = entries.map(titleOf).findLast((each) => each) ?? log.title ?? firstTitleOf(labels);
    if (title !== undefined && title !== log.title) {
      await log.setTitle(title);
    }
  }

  private entries(key: Key): Promise<unknown[]> {
    return this.using(key, async (transcript) => ((await isThere(transcript)) ? [...entriesOf(await transcript.log.read())] : []));
  }

  private async *listed(projectKey: string): AsyncGenerator<{ key: Key; info: SessionInfo }> {
    const found: SessionInfo[] = [];
    let cursor: string | undefined;
    do {
      const where = cursor === undefined ? {} : { cursor };
      const asked = { source: { kind: KIND }, limit: PAGE, includeArchived: true, ...where };
      const page = await this.client.request("session/list", asked);
      found.push(...page.sessions);
      cursor = page.nextCursor;
    } while (cursor !== undefined);
    for (const info of found) {
      const key = keyOf(info.source?.key ?? "");
      if (key?.[0] === projectKey) {
        yield { key, info };
      }
    }
  }

  /** Does `work` with a transcript, when all that was asked of it before is done; closes those that nobody uses, if they are many. */
  private async using<T>(key: Key, work: (transcript: Transcript) => Promise<T>): Promise<T> {
    const name = nameOf(key);
    const transcript = this.transcripts.get(name) ?? new Transcript(this.client, key);
    this.transcripts.delete(name);
    this.transcripts.set(name, transcript); // now the one used last
    try {
      return await transcript.inTurn(() => work(transcript));
    } finally {
      if (!transcript.log.isOpen && transcript.users === 0 && this.transcripts.get(name) === transcript) {
        this.transcripts.delete(name);
      }
      await this.closeUnused();
    }
  }

  private async closeUnused(): Promise<void> {
    while (this.transcripts.size > (this.options.maxOpen ?? MAX_OPEN)) {
      // One with forks is not forgotten: what its stale agent says next is known by them.
      const unused = [...this.transcripts].find(([, each]) => each.users === 0 && each.forks.length === 0);
      if (!unused) {
        return;
      }
      this.transcripts.delete(unused[0]);
      await unused[1].inTurn(() => unused[1].log.close());
    }
  }
}

async function isThere(transcript: Transcript): Promise<boolean> {
  return transcript.log.isOpen || transcript.log.open();
}

/** The items as one request; as several only where a frame could not hold them. */
function* chunksOf(items: readonly Item[], most: number): Generator<Json[]> {
  let chunk: Json[] = [];
  let left = most;
  for (const { item, size } of items) {
    if (chunk.length > 0 && size > left) {
      yield chunk;
      chunk = [];
      left = most;
    }
    chunk.push(item);
    left -= size;
  }
  yield chunk;
}

function partsOf({ projectKey, sessionId, subpath }: SessionKey): Key {
  return subpath ? [projectKey, sessionId, subpath] : [projectKey, sessionId];
}

function nameOf(key: Key): string {
  return JSON.stringify(key);
}

/** The key that a session's source names; undefined where it is none of ours. */
function keyOf(text: string): Key | undefined {
  try {
    const parts: unknown = JSON.parse(text);
    const isKey = Array.isArray(parts) && (parts.length === 2 || parts.length === 3) && parts.every((part) => typeof part === "string");
    return isKey ? parts : undefined;
  } catch {
    return undefined;
  }
}

/**
 * What the checkpoints before entries are called, by the entries' numbers.
 *
 * What the program notes before a prompt goes along with it.
 */
function labelsOf(entries: readonly unknown[]): Map<number, string> {
  const found = new Map<number, string>();
  let start = 0; // where the notes before the next entry begin
  entries.forEach((entry, at) => {
    const label = labelOf(entry);
    if (label !== undefined) {
      found.set(start, label);
    }
    if (label !== undefined || isMessage(entry) || (start > 0 && uuidOf(entry) !== undefined)) {
      start = at + 1;
    }
  });
  return found;
}

/** What a conversation is called until it has a name: its first prompt. */
function firstTitleOf(labels: ReadonlyMap<number, string>): string | undefined {
  return [...labels.values()].find((label) => label !== "compacted");
}

function traitsOf(entries: readonly unknown[]): Partial<SessionOpenParams> {
  const folders = entries.map((entry) => (isObject(entry) ? entry["cwd"] : undefined));
  const folder = folders.find((each): each is string => typeof each === "string" && isAbsolute(each));
  const title = firstTitleOf(labelsOf(entries));
  return {
    ...(folder === undefined ? {} : { workspace: pathToFileURL(folder).href }),
    ...(title === undefined ? {} : { title }),
  };
}
