/** Conversations for MCP clients of the editor. */

import * as vscode from "vscode";
import type { Feature } from "../../core/core.js";
import { registerMcpServer } from "./mcpServer.js";

export const mcp: Feature = ({ launching }) => vscode.Disposable.from(...registerMcpServer(launching));
