/**
 * Entries of a Claude Code transcript as records of a log, and back; and what the adapter has to know of an entry.
 *
 * The records are those of the Python adapter (`timeleap_agents.adapters.claude_entries`): either reads what the other wrote. An
 * entry of a person or the model is a message, so that windows show it; what the message does not say stands in its member
 * `claude`. Every other entry is an opaque record. An entry that is too large for one record is cut into several, which
 * count only together.
 */

import { createHash } from "node:crypto";
import { asText, firstLine, isObject, isPlain, readable, spaced, type Json } from "./jsonValues.js";

/**
 * Of a message: `entry`, the entry without its text; or `text`, the whole entry as JSON text. `content` says where the
 * entry's content is: `message` (the record's own), `result` (that is the result of the only tool) or `text` (that is the
 * text of the block number `block`).
 */
const MEMBER = "claude";
const OPAQUE = "_claude";
const PART = "_claude-part";
/** Of the JSON text of an entry in one record: escaped, and in UTF-8, it is well below the largest message. */
const MAX_RECORD_CHARACTERS = 4 * 1024 * 1024;
/** How texts begin that the program writes in the person's name. */
const NO_PROMPT = ["<local-command-", "[Request interrupted"];
const COUNTS = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"];

/** An item of `context/appendMessage`, and about how many characters it has as JSON. */
export interface Item {
  readonly item: Json;
  readonly size: number;
}

/** An entry that says something of the person or the model that a window can show. */
interface Said extends Json {
  readonly type: "user" | "assistant";
  readonly message: Json & { readonly content: string | readonly Json[] };
}

/**
 * The entry as items of `context/appendMessage`.
 *
 * @throws Error It cannot be kept: it is nested too deeply.
 */
export function itemsOf(entry: unknown, most = MAX_RECORD_CHARACTERS): Item[] {
  const { text, plain } = asText(entry);
  if (text.length > most) {
    return partsOf(text, most);
  }
  if (!isMessage(entry)) {
    const kept = plain ? { entry } : { text };
    return [{ item: { record: { role: OPAQUE, content: "", ...kept } }, size: text.length }];
  }
  const shown = readable(shownOf(entry.message.content));
  const item = plain ? messageOf(entry) : { role: entry.type, content: shown, [MEMBER]: { text } };
  return [{ item, size: 2 * text.length }];
}

/** The entries that records keep; records of others are passed over, and so are parts of which some are missing. */
export function* entriesOf(records: Iterable<Json>): Generator<unknown> {
  const parts = new Map<string, string[]>();
  for (const record of records) {
    let whole = record;
    if (record["role"] === PART) {
      const name = String(record["of"]);
      const texts = record["number"] === 0 ? [] : (parts.get(name) ?? []);
      parts.set(name, texts);
      texts.push(String(record["text"]));
      if (texts.length !== record["count"]) {
        continue;
      }
      parts.delete(name);
      whole = { role: OPAQUE, text: texts.join("") };
    }
    const found = entryOf(whole);
    if (found) {
      yield found[0];
    }
  }
}

/** The uuid of the entry that a record completes; undefined where it completes none, or one without uuid. */
export function uuidOfRecord(record: Json): string | undefined {
  if (record["role"] === PART) {
    const last = record["number"] === Number(record["count"] ?? 0) - 1;
    return last && typeof record["uuid"] === "string" ? record["uuid"] : undefined;
  }
  return uuidOf(entryOf(record)?.[0]);
}

/** The entry of a record; undefined where it keeps none, or something that neither adapter wrote. */
function entryOf(record: Json): [unknown] | undefined {
  const opaque = record["role"] === OPAQUE;
  const kept = opaque ? record : record[MEMBER];
  if (!isObject(kept)) {
    return undefined;
  }
  if ("text" in kept) {
    try {
      return typeof kept["text"] === "string" ? [JSON.parse(kept["text"])] : undefined;
    } catch {
      return undefined;
    }
  }
  if (!("entry" in kept)) {
    return undefined;
  }
  return opaque ? [kept["entry"]] : rebuilt(record, kept);
}

function rebuilt(record: Json, kept: Json): [unknown] | undefined {
  const { entry, content: where } = kept;
  if (where !== "message" && where !== "result" && where !== "text") {
    return [entry];
  }
  if (!isObject(entry) || !isObject(entry["message"]) || !("content" in record)) {
    return undefined;
  }
  if (where === "message") {
    return [{ ...entry, message: { ...entry["message"], content: record["content"] } }];
  }
  const blocks = entry["message"]["content"];
  const number = where === "text" ? Number(kept["block"]) : 0;
  const block: unknown = Array.isArray(blocks) ? blocks[number] : undefined;
  if (!Array.isArray(blocks) || !isObject(block)) {
    return undefined;
  }
  const whole = { ...block, [where === "text" ? "text" : "content"]: record["content"] };
  return [{ ...entry, message: { ...entry["message"], content: blocks.with(number, whole) } }];
}

export function uuidOf(entry: unknown): string | undefined {
  return isObject(entry) && typeof entry["uuid"] === "string" ? entry["uuid"] : undefined;
}

/** The uuid of the entry that this one continues. */
export function parentOf(entry: unknown): string | undefined {
  return isObject(entry) && typeof entry["parentUuid"] === "string" ? entry["parentUuid"] : undefined;
}

export function isMessage(entry: unknown): entry is Said {
  if (!isObject(entry) || (entry["type"] !== "user" && entry["type"] !== "assistant")) {
    return false;
  }
  const message = entry["message"];
  return isObject(message) && message["role"] === entry["type"] && isContent(message["content"]);
}

/** The text a person asked for; undefined for everything else, results of tools and what the program says included. */
function promptOf(entry: unknown): string | undefined {
  if (!isMessage(entry) || entry.type !== "user" || entry["isMeta"] || entry["isSidechain"] || entry["isCompactSummary"]) {
    return undefined;
  }
  const { content } = entry.message;
  if (typeof content !== "string" && content.some((block) => block["type"] === "tool_result")) {
    return undefined;
  }
  const text = readable(shownOf(content));
  return NO_PROMPT.some((start) => text.startsWith(start)) ? undefined : text;
}

/** What the checkpoint before the entry is called; undefined where it gets none. */
export function labelOf(entry: unknown): string | undefined {
  if (isObject(entry) && entry["subtype"] === "compact_boundary") {
    return "compacted";
  }
  const prompt = promptOf(entry);
  return prompt === undefined ? undefined : firstLine(prompt) || "(no text)";
}

/** The name that an entry gives the conversation. */
export function titleOf(entry: unknown): string | undefined {
  const title = isObject(entry) ? entry["customTitle"] || entry["aiTitle"] : undefined;
  return typeof title === "string" ? firstLine(readable(title)) : undefined;
}

/** The tokens of the context as the last answer of the model among the entries reports; undefined if none does. */
export function tokensOf(entries: readonly unknown[]): number | undefined {
  const answer = entries.findLast((entry) => {
    if (!isObject(entry) || entry["type"] !== "assistant" || entry["isSidechain"] || !isObject(entry["message"])) {
      return false;
    }
    return isObject(entry["message"]["usage"]) && entry["message"]["model"] !== "<synthetic>";
  }) as { message: { usage: Json } } | undefined;
  const counts = COUNTS.map((name) => answer?.message.usage[name]);
  const isCount = (count: unknown): count is number => Number.isInteger(count) && Number(count) >= 0 && Number(count) < 2 ** 40;
  return answer && counts.filter(isCount).reduce((sum, count) => sum + count, 0);
}

function messageOf(entry: Said): Json {
  const { content, ...others } = entry.message;
  const rest: Json & { message: Json } = { ...entry, message: others };
  if (typeof content === "string" || content.every(isPlainText)) {
    return { role: entry.type, content, [MEMBER]: { entry: rest, content: "message" } };
  }
  const only = content.length === 1 ? content[0] : undefined;
  if (only?.["type"] === "tool_result" && typeof only["tool_use_id"] === "string") {
    const said = { role: "tool", tool_call_id: only["tool_use_id"] };
    const { content: outcome, ...block } = only;
    if (typeof outcome === "string") {
      rest.message["content"] = [block];
      return { ...said, content: outcome, [MEMBER]: { entry: rest, content: "result" } };
    }
    return { ...said, content: shownOf(outcome), [MEMBER]: { entry } };
  }
  const calls = content.filter(isCall).map(callOf);
  const thoughts = content
    .filter((block) => block["type"] === "thinking" && typeof block["thinking"] === "string")
    .map((block) => ({ type: "think", think: block["thinking"] }));
  const called = calls.length > 0 ? { tool_calls: calls } : {};
  const texts = content.filter((block) => typeof block["text"] === "string");
  if (texts.length === 1 && thoughts.length === 0) {
    const { text, ...others } = texts[0]!;
    const number = content.indexOf(texts[0]!);
    rest.message["content"] = content.with(number, others);
    return { role: entry.type, content: text, ...called, [MEMBER]: { entry: rest, content: "text", block: number } };
  }
  const shown = shownOf(content);
  const parts = thoughts.length > 0 ? [...thoughts, { type: "text", text: shown }] : shown;
  return { role: entry.type, content: parts, ...called, [MEMBER]: { entry } };
}

function partsOf(text: string, most: number): Item[] {
  const uuid = uuidOf(JSON.parse(text));
  const pieces: string[] = [];
  for (let start = 0; start < text.length; ) {
    // Not between the halves of a surrogate pair: neither of them could be kept.
    const end = start + most < text.length && text.codePointAt(start + most - 1)! > 0xffff ? start + most - 1 : start + most;
    pieces.push(text.slice(start, end));
    start = end;
  }
  const digest = createHash("sha256").update(text).digest("hex").slice(0, 8);
  const named = uuid !== undefined && isPlain(uuid) ? { uuid } : {};
  const part = { of: `${digest}-${text.length}`, count: pieces.length, ...named };
  return pieces.map((piece, number) => ({
    item: { record: { role: PART, content: "", ...part, number, text: piece } },
    size: piece.length,
  }));
}

function isContent(content: unknown): boolean {
  return typeof content === "string" || (Array.isArray(content) && content.every(isObject));
}

function isPlainText(block: Json): boolean {
  return Object.keys(block).length === 2 && block["type"] === "text" && typeof block["text"] === "string";
}

function isCall(block: Json): boolean {
  return block["type"] === "tool_use" && typeof block["id"] === "string" && typeof block["name"] === "string";
}

function callOf(block: Json): Json {
  return { type: "function", id: block["id"], function: { name: block["name"], arguments: spaced(block["input"]) } };
}

/** The text of a content as a window shows it. */
function shownOf(content: unknown): string {
  if (typeof content === "string") {
    return content;
  }
  const blocks: unknown[] = Array.isArray(content) ? content : [];
  return blocks.flatMap((block) => (isObject(block) && typeof block["text"] === "string" ? [block["text"]] : [])).join("\n");
}
