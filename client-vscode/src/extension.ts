/** Puts the core and its features together. */

import type * as vscode from "vscode";
import { Core, type Feature } from "./core/core.js";
import { createApi } from "./features/api/api.js";
import type { TimeleapApi } from "./features/api/apiTypes.js";
import { agents } from "./features/agents/index.js";
import { approvals } from "./features/approvals/index.js";
import { branches } from "./features/branches/index.js";
import { chat } from "./features/chat/index.js";
import { checkpoints } from "./features/checkpoints/index.js";
import { compact } from "./features/compact/index.js";
import { details } from "./features/details/index.js";
import { dmail } from "./features/dmail/index.js";
import { files } from "./features/files/index.js";
import { mcp } from "./features/mcp/index.js";
import { messages } from "./features/messages/index.js";
import { page } from "./features/page/index.js";
import { pins } from "./features/pins/index.js";
import { search } from "./features/search/index.js";
import { sessions } from "./features/sessions/index.js";
import { status } from "./features/status/index.js";
import { transfer } from "./features/transfer/index.js";
import { promptsOf } from "./kit/prompts.js";

/** Documents come first: others show texts with them. Rows that wait for a person stand in this order. */
const FEATURES: readonly Feature[] = [agents, checkpoints, sessions, approvals, dmail, details, messages, branches, page, compact, search, files, transfer, pins, status, chat, mcp];

/** Of this window; `deactivate` gets no argument. */
let core: Core | undefined;

export function activate(context: vscode.ExtensionContext): TimeleapApi {
  const made = new Core(context);
  core = made;
  context.subscriptions.push(made, ...FEATURES.map((register) => register(made)));
  made.warmUp();
  return createApi(made.sessions, promptsOf(made));
}

/** The server finishes what it has accepted. */
export async function deactivate(): Promise<void> {
  await core?.sidecar.stop();
}
