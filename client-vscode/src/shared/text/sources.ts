/** Programs whose conversations are shown here. */

import * as vscode from "vscode";
import type { SessionInfo } from "timeleap-client";
import { fullTime } from "./format.js";

/** Milliseconds before a program deletes a file at which that is said. */
const SOON = 7 * 86_400_000;

const NAMES: Readonly<Record<string, string>> = {
  "claude-code": "Claude Code",
  codex: "Codex",
  gemini: "Gemini CLI",
  kimi: "kimi-cli",
  "kimi-code": "kimi-code",
  pi: "pi",
  opencode: "opencode",
};

/** The name that a program goes by; its kind where it is not known here. */
export function programName(kind: string): string {
  return NAMES[kind] ?? kind;
}

/** Says that a program's own clean-up has deleted a session's file, or is about to. Undefined: neither. */
export function deletionOf(source: SessionInfo["source"], now = Date.now()): string | undefined {
  if (source?.kept === undefined) {
    return undefined;
  }
  const { fileGone, goesAt } = source.kept;
  const name = programName(source.kind);
  if (fileGone) {
    return vscode.l10n.t("{0} has deleted its file, which is kept here", name);
  }
  return goesAt !== undefined && Date.parse(goesAt) < now + SOON ? vscode.l10n.t("{0} deletes its file on {1}; it is kept here", name, fullTime(goesAt)) : undefined;
}
