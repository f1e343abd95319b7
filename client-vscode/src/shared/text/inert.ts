/**
 * Message text as Markdown that stays inside its message: no HTML, no link definitions, no math blocks, no images that load,
 * no links but to the web, no code block left open.
 *
 * What is code to a Markdown parser must not be escaped, or it is unreadable; what is not must be. Code is only left as it is where
 * every parser agrees that it is code. Where that cannot be told, the whole text is shown in a fence.
 */

/** A run of Markdown. `from`, `length`: what it stands for in the text; absent: it is not of the text. */
export interface Run {
  readonly text: string;
  readonly from?: number;
  readonly length?: number;
}

/** The Markdown of runs, where nobody asks what it stands for. */
export function markdownOfRuns(runs: readonly Run[]): string {
  return runs.map(({ text }) => text).join("");
}

/** The text as Markdown. */
export function inertMarkdown(text: string): Run[] {
  return runsOf(text) ?? fenced(text);
}

/** In a fence that the text cannot close. */
export function fenced(text: string, language = ""): Run[] {
  let longest = 2;
  for (const [run] of text.matchAll(/`+/g)) {
    longest = Math.max(longest, run.length);
  }
  const fence = "`".repeat(longest + 1);
  return [{ text: `${fence}${language}\n` }, { text, from: 0, length: text.length }, { text: `\n${fence}` }];
}

/** One line in backticks that the text cannot close. */
export function codeSpan(text: string): Run[] {
  const line = text.replace(/[\r\n]/g, " ");
  const lengths = new Set([...line.matchAll(/`+/g)].map(([run]) => run.length));
  let length = 1;
  while (lengths.has(length)) {
    length += 1;
  }
  const fence = "`".repeat(length);
  const blank = /^`|`$|^ .* $/.test(line) || line === "" ? " " : "";
  return [{ text: fence + blank }, { text: line, from: 0, length: line.length }, { text: blank + fence }];
}

/** One line in which nothing is markup. */
export function plainMarkdown(text: string): string {
  return text
    .replace(/\s+/gu, " ")
    .trim()
    .replace(/[<[\]`$|\\]/g, (mark) => `&#${mark.charCodeAt(0)};`);
}

/** At most three blanks before it: a code block whatever is around it, and not part of a paragraph. */
const FENCE = /^( {0,3})(`{3,}(?=[^`]*$)|~{3,})/;
/** Perhaps a code block in a list or a quotation. */
const NESTED_FENCE = /^[\s>*+\-\d.)]*(?:`{3}|~{3})/;
const BLANK = /^[ \t]*$/;
const CODE_INDENT = /^ {0,3}(?:\t| {4})/;

interface OpenFence {
  readonly indent: number;
  readonly marks: string;
}

/** Undefined: a parser might see code where this does not, or the other way round. */
function runsOf(text: string): Run[] | undefined {
  const runs: Run[] = [];
  let fence: OpenFence | undefined;
  let nested = true; // a code block in a list or a quotation may be open: of another text of the message, before this one
  let inline = new Inline();
  for (const { line, start, end } of linesOf(text)) {
    const blank = BLANK.test(line);
    if (fence) {
      const closes = closesFence(line, fence);
      if (closes === undefined || (!blank && indentOf(line) < fence.indent)) {
        return undefined;
      }
      fence = closes ? undefined : fence;
      runs.push(original(text, start, end));
      continue;
    }
    if (blank) {
      inline = new Inline();
      runs.push(original(text, start, end));
      continue;
    }
    nested &&= /^[\s>]/.test(line); // what starts at the margin ends every list
    const [, blanks, marks] = FENCE.exec(line) ?? [];
    if (blanks !== undefined && marks !== undefined) {
      if (nested && blanks !== "") {
        return undefined; // it may as well close the other
      }
      fence = { indent: blanks.length, marks };
      inline = new Inline();
      runs.push(original(text, start, end));
      continue;
    }
    nested ||= NESTED_FENCE.test(line);
    const escaped = inline.runs(text, start, start + line.length);
    if (escaped.length > 1 && (nested || CODE_INDENT.test(line))) {
      return undefined; // it may be code, where an escape would be shown as it is written
    }
    for (const run of escaped) {
      runs.push(run);
    }
    runs.push(original(text, start + line.length, end));
  }
  return fence ? undefined : runs.filter((run) => run.text !== "");
}

/** Whether a line closes a fence; undefined: that depends on what is around it. */
function closesFence(line: string, { indent, marks }: OpenFence): boolean | undefined {
  const [, blanks = "", closing = ""] = /^([ \t]*)(`{3,}|~{3,})[ \t]*$/.exec(line) ?? [];
  if (!closing.startsWith(marks)) {
    return false;
  }
  return /^ {0,3}$/.test(blanks) ? true : indent === 0 ? false : undefined;
}

function indentOf(line: string): number {
  const [blanks = ""] = /^[ \t]*/.exec(line) ?? [];
  return blanks.includes("\t") ? Math.max(4, blanks.length) : blanks.length;
}

function original(text: string, start: number, end: number): Run {
  return { text: text.slice(start, end), from: start, length: end - start };
}

/** Lines as Markdown ends them. */
function* linesOf(text: string): Generator<{ readonly line: string; readonly start: number; readonly end: number }> {
  const breaks = /\r\n?|\n/g;
  let start = 0;
  for (const found of text.matchAll(breaks)) {
    yield { line: text.slice(start, found.index), start, end: found.index + found[0].length };
    start = found.index + found[0].length;
  }
  if (start < text.length) {
    yield { line: text.slice(start), start, end: text.length };
  }
}

/** What may be markup within a line. */
const MARKS = /`+|<(?=[A-Za-z/!?])|\$+|!(?=\[)|\](?=[:(])|\\[\\`]?|:\/\//g;
/** After `](`: an address that is no program's, and nothing that could be read in two ways. */
const WEB_LINK = /(?:https?:\/\/|mailto:|#)[^\s()<>"'`\\]*(?: "[^"<>`\\]*")?\)/iy;
const RELATIVE_LINK = /[^\s()<>"'`\\:&%]*\)/y;

/** The lines of a paragraph, one after the other. */
class Inline {
  /** Whether a pair of backticks is code for certain. */
  private certain = true;

  runs(text: string, start: number, end: number): Run[] {
    const runs: Run[] = [];
    let kept = start;
    const replace = (at: number, by: string): void => {
      runs.push(original(text, kept, at), { text: by, from: at, length: 1 });
      kept = at + 1;
    };
    const line = text.slice(start, end);
    const backtick = new Next(/`/g, line);
    const space = new Next(/\s/g, line);
    MARKS.lastIndex = 0;
    for (let found = MARKS.exec(line); found; found = MARKS.exec(line)) {
      const [mark] = found;
      const at = start + found.index;
      const after = found.index + mark.length;
      switch (mark[0]) {
        case "`":
          MARKS.lastIndex = this.codeEnd(line, mark, after) ?? after;
          break;
        case "<":
          replace(at, "&lt;");
          break;
        case "$":
          this.certain = false;
          for (let dollar = 0; mark.length > 1 && dollar < mark.length; dollar += 1) {
            replace(at + dollar, "&#36;");
          }
          break;
        case "!":
          replace(at, "&#33;");
          break;
        case "]":
          this.bracket(line, after, at, replace);
          break;
        case "\\":
          this.certain &&= mark !== "\\`";
          break;
        default:
          // An address may go on over a backtick.
          this.certain &&= space.after(after) <= backtick.after(after);
      }
    }
    runs.push(original(text, kept, end));
    return runs;
  }

  /** Where the code ends that begins with these backticks; undefined: they may be no code. */
  private codeEnd(line: string, marks: string, from: number): number | undefined {
    if (!this.certain) {
      return undefined; // nothing is looked for: the rest of the line would be read once for each backtick
    }
    const runs = /`+/g;
    runs.lastIndex = from;
    let closing = runs.exec(line);
    while (closing && closing[0].length !== marks.length) {
      closing = runs.exec(line);
    }
    const content = closing && line.slice(from, closing.index);
    // Cells of a table and link definitions come before code.
    this.certain = content !== null && !content.includes("|") && !content.includes("]:");
    return this.certain && closing ? closing.index + marks.length : undefined;
  }

  private bracket(line: string, after: number, at: number, replace: (at: number, by: string) => void): void {
    if (line[after] === ":") {
      replace(at + 1, "&#58;");
      return;
    }
    WEB_LINK.lastIndex = RELATIVE_LINK.lastIndex = after + 1;
    if (!WEB_LINK.test(line) && !RELATIVE_LINK.test(line)) {
      replace(at, "&#93;");
    }
  }
}

/** Where a pattern matches next in a line, asked at places that only go forward. The line is read once in all. */
class Next {
  private found = -1;

  constructor(
    private readonly pattern: RegExp,
    private readonly line: string,
  ) {}

  /** The first match at `place` or behind it; behind the end of the line if there is none. */
  after(place: number): number {
    if (this.found < place) {
      this.pattern.lastIndex = place;
      this.found = this.pattern.exec(this.line)?.index ?? this.line.length + 1;
    }
    return this.found;
  }
}
