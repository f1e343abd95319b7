/** Conversations as Markdown, and where in it a part of a message is. */

import * as vscode from "vscode";
import type { HistoryMessage, Message } from "timeleap-client";
import { bytes } from "./format.js";
import { argumentsOf, callsOf, partsOf, type Part } from "./message.js";
import { piecesOf, type Piece } from "./wording.js";
import { roleName } from "./roles.js";
import { codeSpan, fenced, inertMarkdown, plainMarkdown, type Run } from "./inert.js";

/** Messages one after the other, each under a heading of its own. */
export function markdownOf(entries: readonly HistoryMessage[]): string {
  return entries.map(({ index, message }) => messageAsMarkdown(index, message)).join("\n");
}

export function messageAsMarkdown(index: number, message: Message): string {
  return write(index, message).text;
}

/** Offsets of a range of a message's text (as searches count it) in the Markdown of that message. */
export function rangeInMarkdown(index: number, message: Message, [from, to]: readonly [number, number]): [number, number] {
  const places = write(index, message).places.filter(({ from: start }) => start !== undefined) as Required<Place>[];
  places.sort((one, other) => one.from - other.from);
  const at = (offset: number, after: boolean): number => {
    const place = places.findLast(({ from: start }) => (after ? start < offset : start <= offset)) ?? places[0];
    if (!place) {
      return 0;
    }
    const inside = Math.max(0, offset - place.from);
    // What stands for something else has no inside.
    return place.at + (inside >= place.source.length ? place.length : place.length === place.source.length ? inside : 0);
  };
  const start = at(from, false);
  return [start, Math.max(start, at(to, true))];
}

/** What a part of the Markdown of messages (as `markdownOf` has it) says in their own words: without what was escaped in it. */
export function originalOf(entries: readonly HistoryMessage[], start: number, end: number): string {
  let base = 0;
  const said = entries.map(({ index, message }) => {
    const { text, places } = write(index, message);
    const [from, to] = [Math.max(0, start - base), Math.min(text.length, end - base)];
    let kept = from;
    let original = "";
    for (const { at, length, source } of places) {
      if (length !== source.length && at < to && at + length > kept) {
        original += text.slice(kept, Math.max(kept, at)) + source;
        kept = at + length;
      }
    }
    base += text.length + 1;
    return original + text.slice(kept, Math.max(kept, to)) + (end >= base && start < base ? "\n" : "");
  });
  return said.join("").slice(0, end >= base ? -1 : undefined);
}

/** A run of the Markdown that stands for a run of the message. */
interface Place {
  /** Where that is in the text that searches count in, if it is part of it. */
  readonly from?: number;
  readonly source: string;
  readonly at: number;
  readonly length: number;
}

/** Puts sections one under the other and remembers what of them is the message's own text. */
class Page {
  text = "";
  readonly places: Place[] = [];

  section(): this {
    this.text += this.text === "" ? "" : "\n\n";
    return this;
  }

  add(text: string): this {
    this.text += text;
    return this;
  }

  /** Adds runs of a text that begins at `start`; `prefix` is put before each line. */
  addRuns(runs: readonly Run[], of: string, start: number | undefined, prefix = ""): this {
    let atMargin = prefix !== "";
    for (const run of runs) {
      for (const piece of prefix === "" ? [run] : byLines(run)) {
        this.text += atMargin ? (/^[\r\n]/.test(piece.text) ? prefix.trimEnd() : prefix) : "";
        atMargin = prefix !== "" && /[\r\n]$/.test(piece.text);
        if (piece.from !== undefined) {
          const source = of.slice(piece.from, piece.from + (piece.length ?? 0));
          this.places.push({ ...(start === undefined ? {} : { from: start + piece.from }), source, at: this.text.length, length: piece.text.length });
        }
        this.text += piece.text;
      }
    }
    return this;
  }
}

function byLines(run: Run): Run[] {
  let at = 0;
  return (run.text.match(/[^\r\n]*(?:\r\n?|\n)|[^\r\n]+$/g) ?? []).map((text) => {
    const piece = run.from === undefined || run.text.length !== run.length ? { ...run, text } : { text, from: run.from + at, length: text.length };
    at += text.length;
    return piece;
  });
}

function write(index: number, message: Message): Page {
  const page = new Page();
  const pieces = piecesOf(message);
  const startOf = (kind: Piece["kind"], of: number): number | undefined => pieces.find((piece) => piece.kind === kind && piece.of === of)?.start;
  const name = typeof message.name === "string" ? ` (${plainMarkdown(message.name)})` : "";
  page.section().add(`## ${index} · ${plainMarkdown(roleName(message.role))}${name}`);
  partsOf(message).forEach((part, of) => {
    const start = part.kind === "media" ? undefined : startOf(part.kind, of);
    page.section();
    if (message.role === "tool" && part.kind === "text") {
      const text = part.text.trimEnd();
      page.addRuns(fenced(text), text, start); // a tool's output is no Markdown, whatever it looks like
    } else {
      addPart(page, part, start);
    }
  });
  callsOf(message).forEach((call, of) => {
    const [before = "", after = ""] = vscode.l10n.t("Calls {0}", "\u0000").split("\u0000");
    const { name: called, arguments: given } = call.function;
    page.section().add(`**${before}`).addRuns(codeSpan(called), called, startOf("name", of)).add(`${after}**`);
    const text = (typeof given === "string" ? given : argumentsOf(call)).trimEnd();
    page.section().addRuns(fenced(text, "json"), text, startOf("arguments", of));
  });
  page.add("\n");
  return page;
}

/** Characters of an address, or of a part whose kind is not known. */
const MOST_URL = 4 * 1024;

function addPart(page: Page, part: Part, start: number | undefined): void {
  if (part.kind === "media") {
    const what = part.url.startsWith("data:") || part.url.length > MOST_URL ? vscode.l10n.t("data of {0}", bytes(part.url.length)) : part.url;
    page.add(`*[${plainMarkdown(part.type)}: ${plainMarkdown(what)}]*`);
    return;
  }
  const text = part.text.trimEnd();
  page.addRuns(inertMarkdown(text), text, start, part.kind === "think" ? "> " : "");
}
