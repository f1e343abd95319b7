/** Conversations as Markdown, and where in it a part of a message is. */

import * as vscode from "vscode";
import type { HistoryMessage, Message } from "timeleap-client";
import { argumentsOf, callsOf, partsOf, type Part } from "../text/message.js";
import { piecesOf, type Piece } from "../text/wording.js";
import { roleName } from "../views/messageNodes.js";

/** Messages one after the other, each under a heading of its own. */
export function markdownOf(entries: readonly HistoryMessage[]): string {
  return entries.map(({ index, message }) => messageAsMarkdown(index, message)).join("\n");
}

export function messageAsMarkdown(index: number, message: Message): string {
  return write(index, message).text;
}

/** Offsets of a range of a message's text (as searches count it) in the Markdown of that message. */
export function rangeInMarkdown(index: number, message: Message, [from, to]: readonly [number, number]): [number, number] {
  const places = [...write(index, message).places].sort((one, other) => one.from - other.from);
  const at = (offset: number, after: boolean): number => {
    const place = places.findLast(({ from: start }) => (after ? start < offset : start <= offset)) ?? places[0];
    return place ? place.at + Math.max(0, Math.min(offset - place.from, place.length)) : 0;
  };
  const start = at(from, false);
  return [start, Math.max(start, at(to, true))];
}

/** A run of the Markdown that is a run of the message's text. */
interface Place {
  readonly from: number;
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

  add(text: string, from?: number): this {
    if (from !== undefined) {
      this.places.push({ from, at: this.text.length, length: text.length });
    }
    this.text += text;
    return this;
  }
}

function write(index: number, message: Message): Page {
  const page = new Page();
  const pieces = piecesOf(message);
  const startOf = (kind: Piece["kind"], of: number): number | undefined => pieces.find((piece) => piece.kind === kind && piece.of === of)?.start;
  const name = typeof message.name === "string" ? ` (${message.name})` : "";
  page.section().add(`## ${index} · ${roleName(message.role)}${name}`);
  partsOf(message).forEach((part, of) => {
    const start = part.kind === "media" ? undefined : startOf(part.kind, of);
    page.section();
    if (message.role === "tool" && part.kind === "text") {
      addFenced(page, part.text, start); // a tool's output is no Markdown, whatever it looks like
    } else {
      addPart(page, part, start);
    }
  });
  callsOf(message).forEach((call, of) => {
    const [before = "", after = ""] = vscode.l10n.t("Calls {0}", "\u0000").split("\u0000");
    page.section().add(`**${before}\``).add(call.function.name, startOf("name", of)).add(`\`${after}**`);
    addFenced(page.section(), call.function.arguments ?? argumentsOf(call), startOf("arguments", of), "json");
  });
  page.add("\n");
  return page;
}

function addPart(page: Page, part: Part, start: number | undefined): void {
  switch (part.kind) {
    case "text":
      page.add(part.text.trimEnd(), start);
      break;
    case "think":
      addQuoted(page, part.text.trimEnd(), start);
      break;
    case "media":
      page.add(`*[${part.type}: ${part.url.startsWith("data:") ? vscode.l10n.t("{0} characters of data", part.url.length) : part.url}]*`);
  }
}

function addQuoted(page: Page, text: string, start: number | undefined): void {
  let from = start;
  text.split("\n").forEach((line, index) => {
    const shown = line.trimEnd();
    page.add(`${index === 0 ? "" : "\n"}>${shown === "" ? "" : " "}`).add(shown, from);
    from = from === undefined ? undefined : from + line.length + 1;
  });
}

/** A fence that the text cannot close. */
function addFenced(page: Page, text: string, start: number | undefined, language = ""): void {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([run]) => run.length));
  const fence = "`".repeat(longest + 1);
  page.add(`${fence}${language}\n`).add(text.trimEnd(), start).add(`\n${fence}`);
}
