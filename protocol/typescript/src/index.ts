/** A typed client of the Timeleap sidecar. */

export { handleApprovals, type ApprovalHandler, type ApprovalVerdict } from "./approvals.js";
export type { ProgressValue, RequestOptions } from "./call.js";
export { TimeleapClient, type ClientEvents, type ClientOptions, type HistoryWithRecords, type Summarize } from "./client.js";
export type { Trace } from "./connection.js";
export type { Disposable, Listener } from "./emitter.js";
export { ClientClosedError, ConnectionLostError, RequestTimeoutError, StartFailedError, TimeleapError, type Exit } from "./errors.js";
export { canonicalFolderUri } from "./folderUri.js";
export type { ClientState } from "./link.js";
export type { ServerCommand } from "./server.js";
export type { Reopened } from "./sessions.js";
export { DEFAULT_RESTARTS, type Reconnected, type Restarts } from "./starting.js";
export * from "./generated/methods.js";
export type * from "./generated/types.js";
