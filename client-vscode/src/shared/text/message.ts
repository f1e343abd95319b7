/** What a message says. Messages are other programs' data: nothing about their form is taken for granted. */

import type { HistoryMessage, Message, ToolCall } from "timeleap-client";
import { membersOf } from "./json.js";

/** A part's text, or what stands for it. */
export type Part = { readonly kind: "text" | "think"; readonly text: string } | { readonly kind: "media"; readonly type: string; readonly url: string; readonly unknown?: true };

export function partsOf(message: Message): Part[] {
  const { content } = message;
  if (typeof content === "string") {
    return content === "" ? [] : [{ kind: "text", text: content }];
  }
  return Array.isArray(content) ? content.map(partOf) : [];
}

/** All text parts; neither thoughts nor media. */
export function textOf(message: Message): string {
  return partsOf(message)
    .flatMap((part) => (part.kind === "text" ? [part.text] : []))
    .join("\n");
}

/** The first words a row shows: text, else thoughts, else what kind of part there is. */
export function gistOf(message: Message): string {
  const parts = partsOf(message);
  const first = parts.find((part) => part.kind === "text" && part.text.trim() !== "") ?? parts.find((part) => part.kind === "think") ?? parts[0];
  if (!first) {
    return "";
  }
  return first.kind === "media" ? `[${first.type}]` : first.text;
}

/** The note in the message that a D-Mail or a note of another session arrives as; undefined: it is none. */
export function noteOf(message: Message): string | undefined {
  if (message.role !== "user") {
    return undefined;
  }
  return /^<system>A (?:D-Mail|note) has arrived\b[^]*?\n\nThe note:\n\n([^]*)<\/system>/u.exec(textOf(message))?.[1];
}

export function callsOf(message: Message): ToolCall[] {
  const calls: unknown = message.tool_calls;
  return Array.isArray(calls) ? calls.filter(isCall) : [];
}

/** One row of a conversation: a message, or a tool call with the message that answers it. */
export type Row =
  | { readonly kind: "message"; readonly entry: HistoryMessage }
  | { readonly kind: "call"; readonly call: ToolCall; readonly from: HistoryMessage; readonly result: HistoryMessage | undefined };

/**
 * Puts each call and its result into one row, where the call stood. A result belongs to the last unanswered call of its id before it.
 * A message that holds nothing but calls has no row of its own; a result without a call keeps its own.
 */
export function rowsOf(entries: readonly HistoryMessage[]): Row[] {
  const rows: Row[] = [];
  const waiting = new Map<string, number>();
  for (const entry of entries) {
    const { message } = entry;
    const call = typeof message.tool_call_id === "string" ? waiting.get(message.tool_call_id) : undefined;
    const row = call === undefined ? undefined : rows[call];
    if (call !== undefined && row?.kind === "call") {
      rows[call] = { ...row, result: entry };
      waiting.delete(row.call.id);
      continue;
    }
    const calls = callsOf(message);
    if (calls.length === 0 || gistOf(message) !== "") {
      rows.push({ kind: "message", entry });
    }
    for (const one of calls) {
      waiting.set(one.id, rows.length);
      rows.push({ kind: "call", call: one, from: entry, result: undefined });
    }
  }
  return rows;
}

/** A call's arguments as they are read: `key: value` pairs of a JSON object, else the text. */
export function argumentsOf(call: ToolCall): string {
  const given: unknown = call.function.arguments;
  if (typeof given !== "string") {
    return "";
  }
  try {
    const parsed: unknown = JSON.parse(given);
    if (typeof parsed === "object" && parsed !== null && !Array.isArray(parsed)) {
      return membersOf(given)
        .map(([name, text]) => `${name}: ${text.startsWith('"') ? (JSON.parse(text) as string) : text}`)
        .join(", ");
    }
  } catch {
    // Models write broken JSON at times; the text is shown as it is.
  }
  return given;
}

function isCall(call: unknown): call is ToolCall {
  const { function: called } = (call ?? {}) as { function?: { name?: unknown } | null };
  return typeof called?.name === "string";
}

function partOf(part: unknown): Part {
  const { type, text, think, ...rest } = part as Record<string, unknown>;
  if (typeof text === "string" && type === "text") {
    return { kind: "text", text };
  }
  if (typeof think === "string") {
    return { kind: "think", text: think };
  }
  const media = typeof type === "string" ? (rest[type] as { url?: unknown } | null | undefined) : undefined;
  const named = typeof type === "string" ? type : "?";
  // What nobody knows the form of is shown as it is written.
  return typeof media?.url === "string" ? { kind: "media", type: named, url: media.url } : { kind: "media", type: named, url: JSON.stringify(part), unknown: true };
}
