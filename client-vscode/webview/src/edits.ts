/** What a call's arguments say, as a person reads them: an edit as the lines it changes, else member by member. */

import { diffLines } from "diff";
import { indented, membersOf } from "../../src/shared/text/json.js";

export interface Line {
  readonly mark: "same" | "removed" | "added";
  readonly text: string;
}

export interface Edit {
  readonly path: string;
  readonly lines: readonly Line[];
}

/** Lines of an edit; larger ones are not compared, but shown as what goes and what comes. */
const MOST_LINES = 2_000;
/** Lines around a change. */
const AROUND = 3;

const OLD = ["old_string", "old_str", "oldText", "old_text", "old", "search"];
const NEW = ["new_string", "new_str", "newText", "new_text", "new", "replace"];
const PATH = ["path", "file_path", "filePath", "filename", "file"];

/** Undefined: these are no arguments of an edit. */
export function editsOf(given: string): Edit[] | undefined {
  const parsed = parse(given);
  if (!parsed) {
    return undefined;
  }
  const path = textAt(parsed, PATH) ?? "";
  const several = parsed["edits"];
  if (Array.isArray(several) && several.length > 0) {
    const edits = several.map((one: unknown) => (typeof one === "object" && one !== null ? editOf(one as Members, path) : undefined));
    return edits.every((edit) => edit !== undefined) ? edits : undefined;
  }
  const one = editOf(parsed, path);
  if (one) {
    return [one];
  }
  const patch = textAt(parsed, ["patch", "diff", "unified_diff"]);
  return patch !== undefined && /^[-+]/mu.test(patch) ? [{ path, lines: patchLines(patch) }] : undefined;
}

/** Name and value of each member as it is written; undefined: no object. */
export function membersIn(given: string): (readonly [name: string, value: string])[] | undefined {
  if (!parse(given)) {
    return undefined;
  }
  return membersOf(given).map(([name, text]) => [name, text.startsWith('"') ? (JSON.parse(text) as string) : indented(text)] as const);
}

/** The member that says most of what a call is about, on one line. */
export function gistOf(given: string): string {
  const parsed = parse(given);
  const telling = parsed && (textAt(parsed, ["command", "cmd", ...PATH, "query", "pattern", "url", "description"]) ?? Object.values(parsed).find((value) => typeof value === "string"));
  return (typeof telling === "string" ? telling : given).slice(0, 400).replace(/\s+/gu, " ").trim();
}

type Members = Readonly<Record<string, unknown>>;

function parse(given: string): Members | undefined {
  try {
    const parsed: unknown = JSON.parse(given);
    return typeof parsed === "object" && parsed !== null && !Array.isArray(parsed) ? (parsed as Members) : undefined;
  } catch {
    return undefined; // models write broken JSON at times
  }
}

function textAt(members: Members, names: readonly string[]): string | undefined {
  const found = names.map((name) => members[name]).find((value) => typeof value === "string");
  return typeof found === "string" ? found : undefined;
}

function editOf(members: Members, path: string): Edit | undefined {
  const [before, after] = [textAt(members, OLD), textAt(members, NEW)];
  return before === undefined || after === undefined ? undefined : { path: textAt(members, PATH) ?? path, lines: changed(before, after) };
}

/** Only the lines around changes; a gap is a line of its own. */
export function changed(before: string, after: string): Line[] {
  const large = before.split("\n").length + after.split("\n").length > MOST_LINES;
  const changes = large ? undefined : diffLines(before, after, { timeout: 200 });
  const lines = changes
    ? changes.flatMap(({ added, removed, value }) => linesOf(value).map((text): Line => ({ mark: added ? "added" : removed ? "removed" : "same", text })))
    : [...linesOf(before).map((text): Line => ({ mark: "removed", text })), ...linesOf(after).map((text): Line => ({ mark: "added", text }))];
  const near = (at: number): boolean => lines.slice(Math.max(0, at - AROUND), at + AROUND + 1).some(({ mark }) => mark !== "same");
  const shown: Line[] = [];
  lines.forEach((line, at) => {
    if (line.mark !== "same" || near(at)) {
      shown.push(line);
    } else if (shown.at(-1)?.text !== "⋯") {
      shown.push({ mark: "same", text: "⋯" });
    }
  });
  return shown;
}

function patchLines(patch: string): Line[] {
  return linesOf(patch).map((text) => {
    const mark = /^\+(?!\+\+ )/u.test(text) ? "added" : /^-(?!-- )/u.test(text) ? "removed" : "same";
    return { mark, text: mark === "same" ? text : text.slice(1) };
  });
}

function linesOf(text: string): string[] {
  const lines = text.split("\n");
  return lines.at(-1) === "" ? lines.slice(0, -1) : lines;
}
