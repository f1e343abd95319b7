/** Messages as the page shows them. Whatever a message holds, what comes out has a known shape and a bounded size. */

import type { Checkpoint, HistoryMessage, Message, ToolCall } from "timeleap-client";
import { summaryOf } from "../../shared/spanSummary.js";
import { failedAnswer } from "../../shared/text/failure.js";
import { callsOf, partsOf } from "../../shared/text/message.js";
import type { ShownCall, ShownMessage, ShownPart, TextPlace } from "./wire.js";

/** Characters of a text, of a call's arguments, and of a message in all. The rest is read on. */
export const MOST_TEXT = 64 * 1024;
export const MOST_ARGUMENTS = 16 * 1024;
export const MOST_MESSAGE = 512 * 1024;
/** Characters of a picture's URL. */
export const MOST_PICTURE = 4 << 20;
export const MOST_PARTS = 200;
/** Characters of a part whose kind is not known. */
const MOST_UNKNOWN = 4 * 1024;

/** Formats in which no script can be; SVG is shown as text. */
const PICTURE = /^data:image\/(?:png|jpeg|gif|webp|avif);base64,[A-Za-z0-9+/=\s]*$/u;

export function shownMessage({ index, message }: HistoryMessage): ShownMessage {
  const budget = new Budget(MOST_MESSAGE);
  const all = partsOf(message);
  const parts = all.slice(0, MOST_PARTS).map((part): ShownPart => {
    if (part.kind === "media") {
      return part.url.length <= MOST_PICTURE && PICTURE.test(part.url)
        ? { kind: "picture", url: part.url }
        : { kind: "other", type: part.type.slice(0, 100), text: budget.take(part.url, part.unknown ? MOST_UNKNOWN : 300).text };
    }
    return { kind: part.kind, ...budget.take(part.text, MOST_TEXT) };
  });
  const calls = callsOf(message).map((call): ShownCall => {
    const { text, cut } = budget.take(givenTo(call), MOST_ARGUMENTS);
    const id: unknown = call.id;
    return { id: typeof id === "string" ? id : "", name: call.function.name.slice(0, 200), given: text, ...(cut === undefined ? {} : { cut }) };
  });
  const left = all.length - parts.length;
  const { role, name, tool_call_id: answers } = message as Record<string, unknown>;
  return {
    index,
    role: typeof role === "string" ? role.slice(0, 100) : "",
    ...(typeof name === "string" ? { name: name.slice(0, 100) } : {}),
    parts: left > 0 ? [...parts, { kind: "other", type: "…", text: `+${left}` }] : parts,
    calls,
    ...(typeof answers === "string" ? { answers } : {}),
    ...(failed(message) ? { failed: true } : {}),
  };
}

/** All of a text that may be shown in part. Undefined: there is none there. */
export function textAt(message: Message, { part, call }: TextPlace): string | undefined {
  const called = call === undefined ? undefined : callsOf(message)[call];
  const found = part === undefined ? undefined : partsOf(message)[part];
  return called ? givenTo(called) : found && "text" in found ? found.text : undefined;
}

function givenTo({ function: { arguments: given } }: ToolCall): string {
  return typeof given === "string" ? given : given === undefined ? "" : JSON.stringify(given);
}

export function failed(message: Message): boolean {
  const { role, is_error: marked } = message as Record<string, unknown>;
  return role === "tool" && failedAnswer(marked, partsOf(message).flatMap((part) => (part.kind === "text" ? [part.text] : [])).join("\n"));
}

/** Calls of its span that failed, where the server tells. */
export function errorsOf(checkpoint: Checkpoint): number | undefined {
  const errors = summaryOf(checkpoint)?.errors ?? 0;
  return errors > 0 ? errors : undefined;
}

class Budget {
  constructor(private left: number) {}

  take(text: string, most: number): { text: string; cut?: number } {
    const allowed = Math.max(0, Math.min(most, this.left));
    this.left -= Math.min(text.length, allowed);
    // Not between the halves of a surrogate pair.
    return text.length <= allowed ? { text } : { text: text.slice(0, allowed).replace(/[\uD800-\uDBFF]$/u, ""), cut: text.length };
  }
}
