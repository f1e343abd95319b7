/**
 * Where the server is: what a setting names, else the Python selected in the editor, else PATH, else the private environment
 * this extension has made. The first that has Timeleap wins; what a setting names is used or complained about, never passed over.
 */

import * as vscode from "vscode";
import type { Settings } from "../../shared/settings.js";
import { ServerFailure } from "../../core/server/failure.js";
import type { Launch, LaunchSource } from "../../core/server/launch.js";
import { findOnPath, type Run } from "../../shared/programs.js";
import { isNewEnough, MINIMUM, probe } from "./python.js";
import { refusePassword } from "./storeUrl.js";

/** What is looked at, so that tests can put something else in its place. */
export interface Environment {
  readonly run: Run;
  /** Of the Python extensions. May come from the workspace, so it is not asked in Restricted Mode. */
  selectedPython(): Promise<string | undefined>;
  /** The Python of the private environment, once it is installed. */
  managedPython(): string | undefined;
  /** All Pythons on PATH that the private environment could be made with. */
  pythonsOnPath(): readonly string[];
  readonly path?: string;
  readonly trusted: boolean;
}

/** @throws ServerFailure */
export async function locateServer(settings: Settings, around: Environment): Promise<Launch> {
  refusePassword(settings.store);
  const [command, ...args] = settings.command;
  if (command !== undefined) {
    return { command, args, source: "setting" };
  }
  if (settings.interpreter !== "") {
    const { interpreter } = settings;
    return { ...launchModule(interpreter, "setting"), blame: () => whatIsWrongWith(interpreter, around.run) };
  }
  const selected = around.trusted ? await timeout(around.selectedPython(), SELECTED_TIMEOUT) : undefined;
  if (selected !== undefined && hasServer(await probe(selected, around.run))) {
    return launchModule(selected, "environment");
  }
  const program = findOnPath(["timeleap"], around.path);
  if (program !== undefined) {
    return { command: program, args: ["serve"], source: "path" };
  }
  const managed = around.managedPython();
  if (managed !== undefined) {
    return launchModule(managed, "managed");
  }
  throw await nothingFound(selected, around);
}

/** The first Python that a private environment can be made with. @throws ServerFailure */
export async function usablePython(around: Environment, interpreter = ""): Promise<string> {
  const selected = around.trusted ? await timeout(around.selectedPython(), SELECTED_TIMEOUT) : undefined;
  const candidates = [interpreter, selected, ...around.pythonsOnPath()].filter((one) => one !== undefined && one !== "");
  let oldest: string | undefined;
  for (const candidate of candidates as string[]) {
    const found = await probe(candidate, around.run);
    if (found && isNewEnough(found.version)) {
      return candidate;
    }
    oldest ??= found?.version.join(".");
  }
  throw oldest === undefined ? noPython() : oldPython(oldest);
}

/** The Python extensions may take their time, or never be done. */
const SELECTED_TIMEOUT = 5_000;

function hasServer(found: Awaited<ReturnType<typeof probe>>): boolean {
  return found !== undefined && found.timeleap && isNewEnough(found.version);
}

async function whatIsWrongWith(interpreter: string, run: Run): Promise<ServerFailure | undefined> {
  const found = await probe(interpreter, run);
  if (!found) {
    return new ServerFailure("wrongInterpreter", vscode.l10n.t("The interpreter in the settings, {0}, does not run.", interpreter));
  }
  if (!isNewEnough(found.version)) {
    return oldPython(found.version.join("."));
  }
  if (!found.timeleap) {
    return new ServerFailure("noServer", vscode.l10n.t("The interpreter in the settings, {0}, does not have Timeleap.", interpreter));
  }
  return undefined;
}

async function nothingFound(selected: string | undefined, around: Environment): Promise<ServerFailure> {
  try {
    await usablePython({ ...around, selectedPython: () => Promise.resolve(selected) });
    return new ServerFailure("noServer", vscode.l10n.t("The Timeleap server is not installed."));
  } catch (error) {
    return error as ServerFailure;
  }
}

function noPython(): ServerFailure {
  return new ServerFailure("noPython", vscode.l10n.t("Timeleap needs Python {0} or newer, and none was found on this machine.", MINIMUM.join(".")));
}

function oldPython(version: string): ServerFailure {
  return new ServerFailure("oldPython", vscode.l10n.t("Python {0} is too old; Timeleap needs {1} or newer.", version, MINIMUM.join(".")));
}

async function timeout<T>(work: Promise<T>, milliseconds: number): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(resolve, milliseconds, undefined);
  });
  try {
    return await Promise.race([work.catch(() => undefined), late]);
  } finally {
    clearTimeout(timer);
  }
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
