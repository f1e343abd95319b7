/** What the user has set. Read each time, so that a change needs no bookkeeping. */

import * as vscode from "vscode";

export interface Settings {
  /** Program and arguments that start the server; empty: look for one. */
  readonly command: readonly string[];
  /** The Python that has Timeleap; empty: look for one. */
  readonly interpreter: string;
  /** Directory of the store; empty: the platform's. */
  readonly home: string;
  /** Directory, or URL of a database without a password; empty: the home. */
  readonly store: string;
  readonly durability: "disk" | "os";
  /** Milliseconds. */
  readonly requestTimeout: number;
  /** Tokens; null: unknown. */
  readonly maxContextSize: number | null;
  readonly openNewest: boolean;
  readonly order: "newestFirst" | "oldestFirst";
  readonly useLanguageModel: boolean;
  /** Whether chat's tools mask what looks like a secret. */
  readonly maskSecrets: boolean;
  /** Whether Restore, Undo and Redo ask first. */
  readonly restoreAsks: boolean;
  /** When sessions of a folder save its files; `ask`: as somebody has answered for the folder. */
  readonly filesMode: "ask" | "off" | "checkpoint" | "turn";
}

/** A change of these needs another server. */
const OF_THE_SERVER = ["server", "home", "store", "durability", "maxContextSize", "requestTimeout"].map((name) => `timeleap.${name}`);

export function readSettings(): Settings {
  const given = vscode.workspace.getConfiguration("timeleap");
  return {
    command: given.get<string[]>("server.command", []),
    interpreter: given.get("server.interpreter", ""),
    home: given.get("home", ""),
    store: given.get("store", "").trim(),
    durability: given.get("durability", "disk"),
    requestTimeout: given.get("requestTimeout", 60) * 1000,
    maxContextSize: given.get<number | null>("maxContextSize", null),
    openNewest: given.get("openNewest", true),
    order: given.get("order", "newestFirst"),
    useLanguageModel: given.get("useLanguageModel", true),
    maskSecrets: given.get("chat.maskSecrets", true),
    restoreAsks: given.get("restore.ask", false),
    filesMode: given.get("files.mode", "ask"),
  };
}

export function onDidChangeServerSettings(listener: () => void): vscode.Disposable {
  return vscode.workspace.onDidChangeConfiguration((change) => {
    if (OF_THE_SERVER.some((name) => change.affectsConfiguration(name))) {
      listener();
    }
  });
}
