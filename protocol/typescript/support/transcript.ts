/** Entries as Claude Code writes them. */

import type { SessionKey, SessionStoreEntry } from "../src/claude/index.js";

export const KEY: SessionKey = { projectKey: "-home-ada-shop", sessionId: "7d0c2f7e-0000-4000-8000-000000000001" };

type More = { [member: string]: unknown };

export function prompt(uuid: string, text: unknown, parent: string | null = null, more: More = {}): SessionStoreEntry {
  return { type: "user", uuid, parentUuid: parent, message: { role: "user", content: text }, ...more };
}

export function answer(uuid: string, parent: string, block: unknown, tokens = 0, more: More = {}): SessionStoreEntry {
  const content = [typeof block === "string" ? { type: "text", text: block } : block];
  const message = { role: "assistant", content, model: "m", usage: { input_tokens: tokens } };
  return { type: "assistant", uuid, parentUuid: parent, message, ...more };
}

export function result(uuid: string, parent: string, text: string): SessionStoreEntry {
  const block = { type: "tool_result", tool_use_id: "toolu_1", content: text, is_error: false };
  return prompt(uuid, [block], parent, { toolUseResult: { stdout: text } });
}

/** A turn of a prompt, a call, its result, an answer: uuids q1, c1, r1, a1 and so on. */
export function turn(number: number, parent: string | null = null): SessionStoreEntry[] {
  const call = { type: "tool_use", id: "toolu_1", name: "Bash", input: { command: `echo ${number}` } };
  return [
    { type: "queue-operation", operation: "enqueue", n: number },
    prompt(`q${number}`, `question ${number}`, parent),
    answer(`c${number}`, `q${number}`, call, 100 * number),
    result(`r${number}`, `c${number}`, String(number)),
    answer(`a${number}`, `r${number}`, `answer ${number}`, 100 * number + 1),
  ];
}
