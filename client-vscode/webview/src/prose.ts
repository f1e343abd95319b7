/** What a person wrote: words as Markdown, and what was pasted among them as it was written. */

export interface Block {
  readonly kind: "words" | "output";
  readonly text: string;
}

/** Lines that programs write and people do not. */
const WRITTEN = new RegExp(
  [
    "\\u001b\\[", // colours
    "^\\s*(?:\\$|❯|➜|>>>|PS [A-Z]:\\\\\\S*>) ?\\S", // what stands after a prompt
    "^\\[?\\d{4}[-/]\\d\\d[-/]\\d\\d[T ]\\d\\d:\\d\\d",
    "^\\[?\\d\\d:\\d\\d:\\d\\d\\b",
    "^\\[?(?:ERROR|WARN(?:ING)?|INFO|DEBUG|TRACE|FATAL|CRITICAL)\\b[\\]: ]",
    "^\\s+at \\S+.*[:(]\\d|^\\s+at \\S+ \\(",
    "^Traceback \\(most recent|^\\s+File \"",
    "^E {2,}\\S|^> {4,}\\S",
    "^[=_*-]{3,} .+ [=_*-]{3,}$|^={8,}$",
    "^(?:[\\w.]+\\.)?\\w*(?:Error|Exception): ",
    "^(?:FAILED|PASSED|SKIPPED|XFAIL) \\S+",
    "^(?:npm|yarn|pnpm) (?:ERR!|WARN)|^error(?:\\[\\w+\\])?: |^warning: |^fatal: ",
    "^\\S+\\.\\w+:\\d+(?::\\d+)?:(?: |$)",
    "^diff --git |^@@ -\\d|^\\+\\+\\+ \\S|^--- [ab]/",
    "^\\s+-->? \\S+:\\d+|^\\s*\\d+ \\| ",
    "^[dlcbps-][rwxsStT-]{9}[.+@]? ",
    "^\\d+ (?:passed|failed|errors?)\\b",
  ].join("|"),
  "u",
);
/** Columns: words that are set apart by more than a blank, twice in a line. */
const COLUMNS = /\S {2,}\S.* {2,}\S|\S\t+\S/u;
const MARKDOWN = /^\s*(?:[-*+]|\d+[.)]|>|#{1,6}|\|)(?:\s|$)|^\s*\|/u;
const FENCE = /^ {0,3}(`{3,}|~{3,})/u;
/** Lines of a block that are looked at; of a longer one its beginning tells. */
const MOST_LOOKED = 200;

/** The blocks of a text, in their order; joined with an empty line between them they are the text, but for blanks around them. */
export function blocksOf(text: string): Block[] {
  const blocks: Block[] = paragraphs(text).map((lines) => ({ kind: isOutput(lines) ? "output" : "words", text: lines.join("\n") }));
  const joined: Block[] = [];
  blocks.forEach((block, at) => {
    const last = joined.at(-1);
    // A few words between two parts of an output are most often part of it.
    const between = block.kind === "words" && last?.kind === "output" && blocks[at + 1]?.kind === "output" && !block.text.includes("```");
    const kind = between ? "output" : block.kind;
    if (last?.kind === kind) {
      joined[joined.length - 1] = { kind, text: `${last.text}\n\n${block.text}` };
    } else {
      joined.push({ kind, text: block.text });
    }
  });
  return joined;
}

/** Lines between empty ones; a fence is one paragraph, whatever is in it. */
function paragraphs(text: string): string[][] {
  const found: string[][] = [];
  let lines: string[] = [];
  let fence: string | undefined;
  for (const line of text.split("\n")) {
    const marks = FENCE.exec(line)?.[1];
    if (fence === undefined && line.trim() === "") {
      if (lines.length > 0) {
        found.push(lines);
      }
      lines = [];
      continue;
    }
    lines.push(line);
    if (fence === undefined) {
      fence = marks;
    } else if (marks?.startsWith(fence) && line.trim() === marks) {
      fence = undefined;
    }
  }
  return lines.length > 0 ? [...found, lines] : found;
}

function isOutput(lines: readonly string[]): boolean {
  if (FENCE.test(lines[0] ?? "")) {
    return false;
  }
  const looked = lines.slice(0, MOST_LOOKED);
  const written = looked.filter((line) => WRITTEN.test(line)).length;
  const columns = looked.filter((line) => COLUMNS.test(line) && !MARKDOWN.test(line)).length;
  return written > 0 ? written * 5 >= looked.length || looked.length > 20 : columns >= 2 && columns * 2 >= looked.length;
}
