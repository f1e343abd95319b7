/** A typed client of the Timeleap sidecar. */

export { TimeleapClient, type ClientOptions, type Disposable, type RequestOptions, type Summarize } from "./client.js";
export { ConnectionClosedError, RequestTimeoutError, TimeleapError } from "./errors.js";
export type { ServerCommand } from "./server.js";
export * from "./generated/methods.js";
export type * from "./generated/types.js";
