/** This machine, as `locate` looks at it. */

import * as vscode from "vscode";
import type { Environment } from "./locate.js";
import { findOnPath, run } from "../../shared/programs.js";
import { selectedPython } from "./python.js";

const PYTHONS = ["python3", "python", "python3.14", "python3.13", "python3.12", "python3.11"];

/** @param managedPython the Python of the private environment, once it is installed */
export function environment(managedPython: () => string | undefined): Environment {
  return {
    run,
    managedPython,
    selectedPython: () => selectedPython(vscode.workspace.workspaceFolders?.[0]?.uri),
    pythonsOnPath: () => [...new Set(PYTHONS.map((name) => findOnPath([name])).filter((found) => found !== undefined))],
    trusted: vscode.workspace.isTrusted,
  };
}
