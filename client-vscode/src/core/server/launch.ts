/** How a server is started, and where the way to start it came from. */

import type { Settings } from "../../shared/settings.js";
import type { ServerFailure } from "./failure.js";

export type LaunchSource = "setting" | "environment" | "path" | "managed";

export interface Launch {
  readonly command: string;
  readonly args: readonly string[];
  readonly source: LaunchSource;
  /** Asked when it does not start: what is wrong with the program, if that can be found out. Asking first would hold up every start. */
  readonly blame?: () => Promise<ServerFailure | undefined>;
}

/** As the settings say, else the program that is on PATH. */
export function launchOf({ command: [command, ...args] }: Settings): Launch {
  return command === undefined ? { command: "timeleap", args: ["serve"], source: "path" } : { command, args, source: "setting" };
}
