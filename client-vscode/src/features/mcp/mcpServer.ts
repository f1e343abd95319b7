/** Offers `timeleap mcp`, started as the server is, to the editor's list of MCP servers. */

import * as vscode from "vscode";
import type { Launch } from "../../core/server/launch.js";
import { onDidChangeServerSettings, type Settings } from "../../shared/settings.js";

export interface McpServerOptions {
  readonly settings: () => Settings;
  /** Finds the server. @throws ServerFailure */
  readonly locate: (settings: Settings) => Promise<Launch>;
  readonly log: Pick<vscode.LogOutputChannel, "info">;
  readonly version: string;
}

export function registerMcpServer({ settings, locate, log, version }: McpServerOptions): { dispose(): unknown }[] {
  const changed = new vscode.EventEmitter<void>();
  const provider: vscode.McpServerDefinitionProvider<vscode.McpStdioServerDefinition> = {
    onDidChangeMcpServerDefinitions: changed.event,
    async provideMcpServerDefinitions() {
      // Where it is may be a setting of the folder.
      if (!vscode.workspace.isTrusted) {
        return [];
      }
      try {
        const { home, store } = settings();
        const { command, args } = await locate(settings());
        const offered = mcpArguments(args, home, vscode.workspace.workspaceFolders?.[0]?.uri.fsPath);
        const env = { PYTHONUTF8: "1", ...(store === "" ? {} : { TIMELEAP_STORE: store }) };
        return offered === undefined ? [] : [new vscode.McpStdioServerDefinition("Timeleap", command, offered, env, version)];
      } catch (error) {
        log.info(`no MCP server is offered: ${error instanceof Error ? error.message : String(error)}`);
        return [];
      }
    },
  };
  return [
    changed,
    vscode.lm.registerMcpServerDefinitionProvider("timeleap.mcp", provider),
    onDidChangeServerSettings(() => changed.fire()),
    vscode.workspace.onDidGrantWorkspaceTrust(() => changed.fire()),
    vscode.workspace.onDidChangeWorkspaceFolders(() => changed.fire()),
  ];
}

/** Those of `serve` with `mcp` in its place; undefined: a setting starts the server in a way of its own. */
export function mcpArguments(args: readonly string[], home: string, folder: string | undefined): string[] | undefined {
  const serve = args.lastIndexOf("serve");
  if (serve === -1) {
    return undefined;
  }
  const of = [...(home === "" ? [] : ["--home", home]), ...(folder === undefined ? [] : ["--workspace", folder])];
  return [...args.slice(0, serve), "mcp", ...of];
}
