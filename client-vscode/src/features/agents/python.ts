/** Pythons: what they are, and which one the user has chosen elsewhere in the editor. */

import * as vscode from "vscode";
import type { Run } from "../../shared/programs.js";

export const MINIMUM = [3, 11] as const;

export interface Probe {
  readonly version: readonly [number, number];
  /** Whether it has Timeleap. */
  readonly timeleap: boolean;
}

const QUESTION = "import sys,importlib.util as u;print(*sys.version_info[:2],int(u.find_spec('timeleap') is not None))";
const PROBE_TIMEOUT = 10_000;

/** Asks a Python; undefined: it is none, or none that runs. */
export async function probe(python: string, run: Run): Promise<Probe | undefined> {
  const { code, stdout } = await run(python, ["-I", "-c", QUESTION], PROBE_TIMEOUT);
  const answer = /^(\d+) (\d+) ([01])\s*$/.exec(stdout);
  if (code !== 0 || answer === null) {
    return undefined;
  }
  return { version: [Number(answer[1]), Number(answer[2])], timeleap: answer[3] === "1" };
}

export function isNewEnough([major, minor]: Probe["version"]): boolean {
  return major > MINIMUM[0] || (major === MINIMUM[0] && minor >= MINIMUM[1]);
}

/** The parts used of the Python Environments extension. */
interface EnvironmentsApi {
  getEnvironment(scope: vscode.Uri | undefined): Promise<{ execInfo?: { run?: { executable?: string } } } | undefined>;
}

/** The parts used of the Python extension. */
interface PythonApi {
  ready?: Promise<void>;
  environments: {
    getActiveEnvironmentPath(resource?: vscode.Uri): { path: string };
    resolveEnvironment(path: { path: string }): Promise<{ executable: { uri?: vscode.Uri } } | undefined>;
  };
}

/** The Python that the editor's Python extensions have selected for this folder. Neither extension is needed. */
export async function selectedPython(folder: vscode.Uri | undefined): Promise<string | undefined> {
  return (await fromEnvironments(folder)) ?? (await fromPython(folder));
}

async function fromEnvironments(folder: vscode.Uri | undefined): Promise<string | undefined> {
  const api = await activated<EnvironmentsApi>("ms-python.vscode-python-envs");
  const environment = await api?.getEnvironment(folder);
  return environment?.execInfo?.run?.executable;
}

async function fromPython(folder: vscode.Uri | undefined): Promise<string | undefined> {
  const api = await activated<PythonApi>("ms-python.python");
  await api?.ready;
  const path = api?.environments.getActiveEnvironmentPath(folder);
  const environment = path && (await api?.environments.resolveEnvironment(path));
  return environment?.executable.uri?.fsPath;
}

async function activated<T>(id: string): Promise<T | undefined> {
  const extension = vscode.extensions.getExtension<T>(id);
  return extension && (extension.isActive ? extension.exports : await extension.activate());
}
