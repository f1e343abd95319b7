/** The text of a message that searches count in, and where its pieces come from. The order is the protocol's. */

import type { Message } from "timeleap-client";
import { callsOf, partsOf } from "./message.js";

/** A piece of the text: a text or a thought (`of` counts the parts), or a call's name or arguments (`of` counts the calls). */
export interface Piece {
  readonly kind: "text" | "think" | "name" | "arguments";
  readonly of: number;
  /** Where it begins in the text, in UTF-16 units. */
  readonly start: number;
  readonly text: string;
}

/** Texts come one right after the other; whatever follows them begins after a line feed. */
export function piecesOf(message: Message): Piece[] {
  const parts = partsOf(message).map((part, of) => ({ part, of }));
  const pieces: Piece[] = [];
  let start = 0;
  const add = (kind: Piece["kind"], of: number, text: string): void => {
    start += kind === "text" ? 0 : 1;
    pieces.push({ kind, of, start, text });
    start += text.length;
  };
  for (const kind of ["text", "think"] as const) {
    parts.forEach(({ part, of }) => part.kind === kind && add(kind, of, part.text));
  }
  callsOf(message).forEach((call, of) => {
    add("name", of, call.function.name);
    const given: unknown = call.function.arguments;
    if (typeof given === "string") {
      add("arguments", of, given);
    }
  });
  return pieces;
}
