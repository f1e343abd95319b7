/**
 * What a session store is to the Claude Agent SDK, in its own words: so the package needs neither the SDK nor its types.
 * A test holds `ClaudeSessionStore` to the SDK's own `SessionStore`.
 */

/** Which transcript: of a session, or (`subpath`) of one of its sub-agents. */
export interface SessionKey {
  readonly projectKey: string;
  readonly sessionId: string;
  readonly subpath?: string | undefined;
}

/** A line of a transcript, as Claude Code writes it. */
export interface SessionStoreEntry {
  type: string;
  uuid?: string;
  timestamp?: string;
  [member: string]: unknown;
}

/** What the SDK derives of a session for its lists. */
export interface SessionSummaryEntry {
  sessionId: string;
  mtime: number;
  data: { [member: string]: unknown };
}

/** The SDK's `foldSessionSummary`. */
export type FoldSessionSummary = (
  previous: SessionSummaryEntry | undefined,
  key: { projectKey: string; sessionId: string },
  entries: SessionStoreEntry[],
) => SessionSummaryEntry;
