/** Labels that tell rows apart where the side bar is narrow: the editor cuts them at the right, so what differs comes early. */

/** Characters of a label that can be seen in a side bar of 300 pixels, a badge beside them. */
export const PAINTED = 26;
/** Rows that can be seen at once. */
const IN_SIGHT = 20;
/** Characters of a first word that is kept where what follows it is left out. */
const FIRST_WORD = 14;
/** Characters before the difference that are shown where there is no word's beginning near it. */
const NEAR = 8;

/** What a label is made of. */
export interface Named {
  /** The whole line. */
  readonly name: string;
  readonly id: number;
}

/**
 * The labels of rows one below the other. A name that is longer than what can be seen leaves out what it begins with as another row in
 * sight does, but for its first word: `curl … file=@a.jpg`. Rows that still look the same have their numbers in front.
 */
export function labelsOf(rows: readonly Named[]): string[] {
  const shortened = rows.map(({ name }, at) => {
    const shared = widthOf(name) <= PAINTED ? 0 : Math.max(0, ...inSight(rows, at).map((other) => sharedLength(name, other.name)));
    return without(name, shared);
  });
  const seen = shortened.map((label) => painted(label));
  return shortened.map((label, at) => (inSight(seen, at).includes(seen[at] ?? "") ? `#${String(rows[at]?.id)} ${label}` : label));
}

/** What of a label can be seen. */
export function painted(label: string, width = PAINTED): string {
  if (widthOf(label) <= width) {
    return label;
  }
  let room = width - 1;
  let shown = "";
  for (const char of label) {
    room -= widthOf(char);
    if (room < 0) {
      break;
    }
    shown += char;
  }
  return `${shown}…`;
}

function inSight<T>(rows: readonly T[], at: number): T[] {
  return [...rows.slice(Math.max(0, at - IN_SIGHT + 1), at), ...rows.slice(at + 1, at + IN_SIGHT)];
}

function sharedLength(one: string, other: string): number {
  if (one === other) {
    return 0; // nothing would be left
  }
  const most = Math.min(one.length, other.length);
  let shared = 0;
  while (shared < most && one.charCodeAt(shared) === other.charCodeAt(shared)) {
    shared += 1;
  }
  return shared;
}

/** A name without the first `shared` characters, from the beginning of a word on. */
function without(name: string, shared: number): string {
  const [first = ""] = /^\S*/u.exec(name) ?? [];
  const head = first.length <= FIRST_WORD && shared > first.length ? first : "";
  const before = name.slice(0, shared);
  const word = Math.max(...[" ", "/", "\\"].map((mark) => before.lastIndexOf(mark)));
  const cut = shared - word <= 2 * NEAR ? word : shared - NEAR;
  if (cut <= head.length + 2) {
    return name;
  }
  const rest = name.slice(cut).trimStart().replace(/^[\uDC00-\uDFFF]/u, "");
  return head === "" ? `…${rest}` : `${head} …${rest.startsWith("/") || rest.startsWith("\\") ? "" : " "}${rest}`;
}

/** In halves of what a Chinese character takes. */
function widthOf(text: string): number {
  return text.length + (text.match(/[\u1100-\u115f\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60\uffe0-\uffe6]/gu) ?? []).length;
}
