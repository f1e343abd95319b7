/** Programs of other makers that keep conversations on this machine. */

import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";

export interface Agent {
  /** As the protocol and the command line have it. */
  readonly kind: "claude-code" | "codex" | "gemini" | "kimi-code";
  readonly name: string;
  /** Where it keeps what is its own. */
  readonly folder: string;
}

interface Known extends Agent {
  /** The environment variable that names another folder. */
  readonly variable: string;
  /** Whether the variable names the folder in which `folder` is. */
  readonly parent?: true;
}

const KNOWN: readonly Known[] = [
  { kind: "claude-code", name: "Claude Code", folder: ".claude", variable: "CLAUDE_CONFIG_DIR" },
  { kind: "codex", name: "Codex", folder: ".codex", variable: "CODEX_HOME" },
  { kind: "gemini", name: "Gemini CLI", folder: ".gemini", variable: "GEMINI_CLI_HOME", parent: true },
  { kind: "kimi-code", name: "kimi-code", folder: ".kimi-code", variable: "KIMI_CODE_HOME" },
];

/** All that can be connected, found here or not. */
export function knownAgents(environment: NodeJS.ProcessEnv = process.env): Agent[] {
  return KNOWN.map(({ kind, name, folder, variable, parent }) => {
    const given = environment[variable] ?? "";
    const own = given === "" ? join(homedir(), folder) : parent ? join(given, folder) : given;
    return { kind, name, folder: own };
  });
}

/** Whether an agent was used on this machine: it makes its folder when it is started for the first time. */
export function isHere({ folder }: Agent): boolean {
  return existsSync(folder);
}
