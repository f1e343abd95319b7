/** JSON values as a log keeps them: as they are, or as text where the protocol has no exact form for them. */

export type Json = { [member: string]: unknown };

/** Deeper values are kept as text: the protocol's own limit is 128 levels, and a record adds some. */
const MAX_PLAIN_DEPTH = 100;
const ODD_TEXT = /\\ud[89a-f]|[0-9]{19}/i;
/** What Python takes for white space, and for the end of a line: titles and labels are the same in both adapters. */
const SPACE = "[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]+";
const OUTER_SPACE = new RegExp(`^${SPACE}|${SPACE}$`, "g");
const LINE_END = /\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/;

export function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * The JSON text of a value, and whether the protocol carries the value exactly: no lone surrogates, no huge integers,
 * not too deep.
 *
 * @throws Error It is nested so deeply that it cannot be written as text.
 */
export function asText(value: unknown): { text: string; plain: boolean } {
  let text: string;
  try {
    text = JSON.stringify(value) ?? "null";
  } catch (error) {
    throw error instanceof RangeError ? new Error("the value is nested too deeply to be kept", { cause: error }) : error;
  }
  // Walking through the value takes longer than this: only where it may be deep, or hold something odd.
  const doubtful = (text.match(/[[{]/g)?.length ?? 0) > MAX_PLAIN_DEPTH || ODD_TEXT.test(text);
  return { text, plain: !doubtful || isPlain(value) };
}

/** Whether the protocol carries a value exactly. */
export function isPlain(value: unknown): boolean {
  let level: unknown[] = [value];
  for (let depth = 0; depth < MAX_PLAIN_DEPTH; depth++) {
    const following: unknown[] = [];
    for (const node of level) {
      if (Array.isArray(node)) {
        for (const element of node) {
          following.push(element);
        }
      } else if (isObject(node)) {
        for (const [name, element] of Object.entries(node)) {
          if (!isEncodable(name)) {
            return false;
          }
          following.push(element);
        }
      } else if (typeof node === "string" ? !isEncodable(node) : typeof node === "number" && isHuge(node)) {
        return false;
      }
    }
    if (following.length === 0) {
      return true;
    }
    level = following;
  }
  return false;
}

function isHuge(value: number): boolean {
  return Number.isInteger(value) && (value >= 2 ** 63 || value < -(2 ** 63));
}

function isEncodable(text: string): boolean {
  return !/\p{Surrogate}/u.test(text);
}

/** The text with a question mark in the place of each half of a surrogate pair. */
export function readable(text: string): string {
  return text.replace(/\p{Surrogate}/gu, "?");
}

/** The first line that is not empty, at most 100 characters of it. */
export function firstLine(text: string): string {
  const lines = text.split(LINE_END).map((line) => line.replace(OUTER_SPACE, ""));
  const characters = [...(lines.find((line) => line !== "") ?? "")];
  return characters.length <= 100 ? characters.join("") : `${characters.slice(0, 99).join("")}…`;
}

/** JSON text as Python writes it, with spaces between: what both adapters write is the same to the byte. */
export function spaced(value: unknown): string {
  if (Array.isArray(value)) {
    return `[${value.map(spaced).join(", ")}]`;
  }
  if (isObject(value)) {
    const members = Object.entries(value).filter(([, member]) => member !== undefined);
    return `{${members.map(([name, member]) => `${JSON.stringify(name)}: ${spaced(member)}`).join(", ")}}`;
  }
  return JSON.stringify(value) ?? "null";
}

/** The same in ASCII. */
export function ascii(text: string): string {
  return text.replace(/[^ -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
