/**
 * Secrets in what a language model is told: what looks like one by the table that the server's exports and its MCP tools use, too.
 * What has no such form, such as a password in a sentence, is not found: that is what redaction is for.
 */

import { blocks, common, forms, places, reference, repeated, words } from "../../../protocol/timeleap_protocol/secret_masks.json";

export const MASK = "[secret]";

type Span = readonly [start: number, end: number];

/** All are bounded: hostile text costs no more than its length. */
const FORMS: readonly RegExp[] = [...blocks, ...forms].map((form) => new RegExp(form, "gu"));
/** Where a password stands; the group is the secret. */
const PLACES: readonly RegExp[] = places.map(({ pattern }) => new RegExp(pattern, "dgiu"));
const NO_SECRETS: ReadonlySet<string> = new Set(words);
const COMMON: ReadonlySet<string> = new Set(common.flatMap((line) => line.split(" ")));
const REPEATED = new RegExp(`^(?:${repeated})$`, "u");
/** Secrets that are looked for elsewhere in a text. */
const MOST_REPEATED = 200;
const REFERENCE = new RegExp(`^(?:${reference})$`, "u");
const PICTURE = /^data:[a-z]{1,20}\/[a-z0-9.+-]{1,80};base64,/iu;
const LEAST = 4;
const NONE: ReadonlySet<string> = new Set();

/** The text with a mark in the place of each secret, and of each that is `known` from the texts beside it. */
export function masked(text: string, known = NONE): string {
  let kept = "";
  let at = 0;
  for (const [start, end] of secretSpans(text, known)) {
    kept += text.slice(at, start) + MASK;
    at = end;
  }
  return kept + text.slice(at);
}

/** Secrets that are to be masked wherever they stand: all that stood in the place of a password in one of the texts. */
export function passwordsIn(texts: readonly string[]): ReadonlySet<string> {
  return new Set(texts.flatMap((text) => passwords(text, placedSpans(text))));
}

/** The places of what looks like a secret, or is `known` as one: ascending, and none overlaps with another. */
export function secretSpans(text: string, known = NONE): readonly Span[] {
  if (PICTURE.test(text)) {
    return [];
  }
  const found: Span[] = FORMS.flatMap((form) => Array.from(text.matchAll(form), (match): Span => [match.index, match.index + match[0].length]));
  const placed = placedSpans(text);
  return joined([...found, ...placed, ...repeatedSpans(text, new Set([...known, ...passwords(text, placed)]))]);
}

function placedSpans(text: string): readonly Span[] {
  const placed: Span[] = [];
  for (const place of PLACES) {
    for (const match of text.matchAll(place)) {
      const span = match.indices?.[1];
      if (span && isSecret(text.slice(...span))) {
        placed.push(span);
      }
    }
  }
  return placed;
}

/** A password is a secret elsewhere, too, unless it is a word or number that may mean something else there. */
function passwords(text: string, placed: readonly Span[]): readonly string[] {
  return placed.map((span) => text.slice(...span)).filter((secret) => REPEATED.test(secret) && !COMMON.has(secret.toLowerCase()));
}

function repeatedSpans(text: string, secrets: ReadonlySet<string>): readonly Span[] {
  if (secrets.size === 0) {
    return [];
  }
  const longestFirst = [...secrets].slice(0, MOST_REPEATED).sort((one, other) => other.length - one.length);
  const written = longestFirst.map((secret) => secret.replace(/[\\^$.*+?()[\]{}|/]/gu, "\\$&")).join("|");
  const all = new RegExp(`(?<![A-Za-z0-9_])(?:${written})(?![A-Za-z0-9_])`, "gu");
  return Array.from(text.matchAll(all), (match): Span => [match.index, match.index + match[0].length]);
}

function isSecret(value: string): boolean {
  return value.length >= LEAST && !NO_SECRETS.has(value.toLowerCase()) && !REFERENCE.test(value);
}

function joined(spans: Span[]): Span[] {
  const all: Span[] = [];
  for (const [start, end] of spans.sort(([one], [other]) => one - other)) {
    const last = all.at(-1);
    if (last && start < last[1]) {
      all[all.length - 1] = [last[0], Math.max(end, last[1])];
    } else {
      all.push([start, end]);
    }
  }
  return all;
}

/** A piece of a text, whose ends may be halves of secrets: long words there are left out. */
export function maskedPiece(text: string, known = NONE): string {
  return masked(text, known).replace(/^\S{16,}(?=\s)|(?<=\s)\S{16,}$/gu, "…");
}
