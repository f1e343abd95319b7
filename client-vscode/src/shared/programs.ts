/** Programs on this machine: finding and asking them. Nothing here goes through a shell. */

import { execFile } from "node:child_process";
import { accessSync, constants, statSync } from "node:fs";
import { delimiter, isAbsolute, join } from "node:path";

export interface Ran {
  /** Null: it could not be started, or did not end in time. */
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export type Run = (command: string, args: readonly string[], timeout: number) => Promise<Ran>;

/** Runs a program to its end. Never rejects. */
export const run: Run = (command, args, timeout) =>
  new Promise((resolve) => {
    const options = { timeout, windowsHide: true, maxBuffer: 16 * 1024 * 1024, env: { ...process.env, PYTHONUTF8: "1" } };
    execFile(command, [...args], options, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === "number" ? error.code : null;
      resolve({ code, stdout, stderr: stderr || (error?.message ?? "") });
    });
  });

/** The first program of one of these names on PATH. Relative entries are passed over: they would run what a folder brings. */
export function findOnPath(names: readonly string[], path = process.env["PATH"] ?? "", platform = process.platform): string | undefined {
  const endings = platform === "win32" ? [".exe", ".cmd", ".bat"] : [""];
  for (const name of names) {
    for (const folder of path.split(delimiter).filter((entry) => isAbsolute(entry))) {
      const found = endings.map((ending) => join(folder, name + ending)).find((file) => isProgram(file));
      if (found !== undefined) {
        return found;
      }
    }
  }
  return undefined;
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}
