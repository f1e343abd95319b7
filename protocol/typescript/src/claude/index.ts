/** A session store for the Claude Agent SDK: Claude Code runs on a log that can go back. */

export { ClaudeSessionStore, RevertedError, StaleAgentError, type ClaudeSessionStoreOptions, type Continuation } from "./store.js";
export type { FoldSessionSummary, SessionKey, SessionStoreEntry, SessionSummaryEntry } from "./sdkTypes.js";
