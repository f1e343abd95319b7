/** What the page says: the extension host puts it into the page, in the editor's language. */

import type { Counted, Said, Words } from "../../src/features/page/words.js";

const language = document.documentElement.lang || "en";
const number = new Intl.NumberFormat(language);
const compact = new Intl.NumberFormat(language, { notation: "compact", maximumFractionDigits: 1 });
const time = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "short" });

let known: Words | undefined;

export function words(): Words {
  known ??= JSON.parse(document.getElementById("words")?.textContent ?? "{}") as Words;
  return known;
}

export function say(text: Said, ...given: readonly (string | number)[]): string {
  return filled(words()[text], given);
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

export function exact(value: number): string {
  return number.format(value);
}

export function short(value: number): string {
  return compact.format(value);
}

export function timeOf(iso: string | undefined): string {
  const date = new Date(iso ?? "");
  return Number.isNaN(date.getTime()) ? "" : time.format(date);
}
