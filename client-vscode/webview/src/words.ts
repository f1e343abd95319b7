/** What the page says: it stands in the page, in the editor's language or in the reader's. */

import type { Counted, Said, Words } from "../../src/features/page/words.js";

let known: Words | undefined;
let formats: { readonly number: Intl.NumberFormat; readonly compact: Intl.NumberFormat; readonly time: Intl.DateTimeFormat } | undefined;

/** For a page whose words stand nowhere else; said before anything is. */
export function speak(words: Words, language: string): void {
  known = words;
  document.documentElement.lang = language;
}

export function words(): Words {
  known ??= JSON.parse(document.getElementById("words")?.textContent ?? "{}") as Words;
  return known;
}

export function say(text: Said, ...given: readonly (string | number)[]): string {
  return filled(words()[text], given);
}

/** Something under the name of what it is. */
export function headed(head: string, body: string): string {
  return `${head}${isChinese() ? "：" : ": "}${body}`;
}

/** One after the other; Chinese has no space between them. */
export function joined(...parts: readonly string[]): string {
  return parts.join(isChinese() ? "" : " ");
}

function isChinese(): boolean {
  return document.documentElement.lang.startsWith("zh");
}

/** `count` of something, as people say it; `shown` is the number as it is written. */
export function counted(things: Counted, count: number, shown = exact(count)): string {
  const { one, many } = words()[things];
  return count === 1 ? one : filled(many, [shown]);
}

function filled(text: string, given: readonly (string | number)[]): string {
  return text.replace(/\{(\d)\}/gu, (hole: string, at: string) => {
    const value = given[Number(at)];
    return value === undefined ? hole : typeof value === "number" ? exact(value) : value;
  });
}

/** Of the page's language, which is known when the first number is written. */
function formatted() {
  const language = document.documentElement.lang || "en";
  formats ??= {
    number: new Intl.NumberFormat(language),
    compact: new Intl.NumberFormat(language, { notation: "compact", maximumFractionDigits: 1 }),
    time: new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "short" }),
  };
  return formats;
}

export function exact(value: number): string {
  return formatted().number.format(value);
}

export function short(value: number): string {
  return formatted().compact.format(value);
}

export function timeOf(iso: string | undefined): string {
  const date = new Date(iso ?? "");
  return Number.isNaN(date.getTime()) ? "" : formatted().time.format(date);
}
