/** How a server is started, and where the way to start it came from. */

import type { ServerFailure } from "./failure.js";

export type LaunchSource = "setting" | "environment" | "path" | "managed";

export interface Launch {
  readonly command: string;
  readonly args: readonly string[];
  readonly source: LaunchSource;
  /** Asked when it does not start: what is wrong with the program, if that can be found out. Asking first would hold up every start. */
  readonly blame?: () => Promise<ServerFailure | undefined>;
}

/**
 * Runs the module of a Python that has it. `-P` keeps the working directory out of the import path. The Python that is the
 * extension's own takes nothing from the surroundings at all (`-I`: neither PYTHONPATH nor PYTHONHOME, nor the user's
 * site-packages), since whatever is there is meant for another one; `-X utf8` stands for PYTHONUTF8, which goes with them.
 */
export function launchModule(python: string, source: LaunchSource): Launch {
  const isolation = source === "managed" ? ["-I", "-X", "utf8"] : ["-P"];
  return { command: python, args: [...isolation, "-m", "timeleap", "serve"], source };
}
