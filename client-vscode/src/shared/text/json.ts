/** JSON as it is written: numbers that JavaScript would round stay as they are, and so do order and repetition of members. */

/** Value by value with two blanks of indentation; every name, string and number as it stands. The text must be valid JSON. */
export function indented(json: string): string {
  const parts: string[] = [];
  let depth = 0;
  const line = (): void => void parts.push(`\n${"  ".repeat(depth)}`);
  for (let at = skipBlanks(json, 0); at < json.length; at = skipBlanks(json, at)) {
    const char = json.charAt(at);
    const end = char === '"' || !isMark(char) ? scalarEnd(json, at) : at + 1;
    if (isOpening(char) && isClosing(json.charAt(skipBlanks(json, end)))) {
      const close = skipBlanks(json, end);
      parts.push(char, json.charAt(close));
      at = close + 1;
      continue;
    }
    depth -= isClosing(char) ? 1 : 0;
    if (isClosing(char)) {
      line();
    }
    parts.push(char === ":" ? ": " : json.slice(at, end));
    depth += isOpening(char) ? 1 : 0;
    if (isOpening(char) || char === ",") {
      line();
    }
    at = end;
  }
  return parts.join("");
}

/** The texts of an array's elements; none if it is no array. */
export function elementsOf(json: string): string[] {
  return entriesOf(json, "[").map(({ text }) => text);
}

/** The names and texts of an object's members, in their order; none if it is no object. */
export function membersOf(json: string): [name: string, text: string][] {
  return entriesOf(json, "{").map(({ name, text }) => [name, text]);
}

/** The text of a member; the last one counts, as in `JSON.parse`. */
export function memberOf(json: string, name: string): string | undefined {
  return membersOf(json).findLast(([one]) => one === name)?.[1];
}

function entriesOf(json: string, opening: "[" | "{"): { name: string; text: string }[] {
  const entries: { name: string; text: string }[] = [];
  let at = skipBlanks(json, 0);
  if (json.charAt(at) !== opening) {
    return entries;
  }
  at = skipBlanks(json, at + 1);
  while (at < json.length && !isClosing(json.charAt(at))) {
    let name = "";
    if (opening === "{") {
      const colon = skipBlanks(json, scalarEnd(json, at));
      name = JSON.parse(json.slice(at, scalarEnd(json, at))) as string;
      at = skipBlanks(json, colon + 1);
    }
    const end = valueEnd(json, at);
    entries.push({ name, text: json.slice(at, end) });
    at = skipBlanks(json, end);
    at = json.charAt(at) === "," ? skipBlanks(json, at + 1) : at;
  }
  return entries;
}

function valueEnd(json: string, start: number): number {
  let depth = 0;
  let at = start;
  do {
    const char = json.charAt(at);
    depth += isOpening(char) ? 1 : isClosing(char) ? -1 : 0;
    at = char === '"' || !isMark(char) ? scalarEnd(json, at) : at + 1;
    at = depth > 0 ? skipBlanks(json, at) : at;
  } while (depth > 0 && at < json.length);
  return at;
}

/** The end of a string, a number or a word. */
function scalarEnd(json: string, start: number): number {
  if (json.charAt(start) !== '"') {
    const after = /[\s{}[\]:,]/g;
    after.lastIndex = start + 1;
    return after.exec(json)?.index ?? json.length;
  }
  const stop = /["\\]/g;
  stop.lastIndex = start + 1;
  for (let found = stop.exec(json); found; found = stop.exec(json)) {
    if (found[0] === '"') {
      return found.index + 1;
    }
    stop.lastIndex = found.index + 2; // what is escaped
  }
  return json.length;
}

function skipBlanks(json: string, start: number): number {
  const next = /[^\s]/g;
  next.lastIndex = start;
  return next.exec(json)?.index ?? json.length;
}

function isMark(char: string): boolean {
  return isOpening(char) || isClosing(char) || char === ":" || char === ",";
}

function isOpening(char: string): boolean {
  return char === "{" || char === "[";
}

function isClosing(char: string): boolean {
  return char === "}" || char === "]";
}
