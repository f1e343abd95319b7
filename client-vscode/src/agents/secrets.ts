/**
 * Secrets in what a language model is told: keys and tokens whose form says what they are, and values that stand where a password
 * stands. What has no such form, such as a password in a sentence, is not found: that is what redaction is for.
 */

import { places, reference, words } from "../../../protocol/timeleap_protocol/secret_masks.json";

export const MASK = "[secret]";

/** All are bounded and begin where a word does: hostile text costs no more than its length. */
const FORMS: readonly RegExp[] = [
  /-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|$)/gu,
  // GitHub, GitLab, Slack, OpenAI and Anthropic, Stripe, Google, AWS, npm, PyPI, Hugging Face, SendGrid
  /(?<![\w-])(?:gh[oprsu]_\w{36,255}|github_pat_\w{22,255}|glpat-[\w-]{20,255}|xox[abeoprs]-[\w-]{10,255}|sk-[\w-]{20,255}|[rs]k_live_\w{20,255}|AIza[\w-]{35}|(?:AKIA|ASIA)[A-Z\d]{16}|npm_\w{36}|pypi-[\w-]{50,255}|hf_\w{30,255}|SG\.[\w-]{16,64}\.[\w-]{16,128})/gu,
  /(?<![\w-])eyJ[\w-]{10,4096}\.eyJ[\w-]{10,8192}\.[\w-]{10,1024}/gu,
];

/** Where a password stands, shared with the MCP server; the group is the secret. */
const PLACES: readonly RegExp[] = places.map((place) => new RegExp(place, "dgiu"));
const NO_SECRETS: ReadonlySet<string> = new Set(words);
const REFERENCE = new RegExp(`^${reference}$`, "u");

/** The text with a mark in the place of each. */
export function masked(text: string): string {
  return PLACES.reduce(maskedAt, FORMS.reduce((before, form) => before.replace(form, MASK), text));
}

function maskedAt(text: string, place: RegExp): string {
  let kept = "";
  let at = 0;
  for (const found of text.matchAll(place)) {
    const [start, end] = found.indices?.[1] ?? [0, 0];
    const value = text.slice(start, end);
    if (value.length > 3 && !NO_SECRETS.has(value.toLowerCase()) && !REFERENCE.test(value)) {
      kept += text.slice(at, start) + MASK;
      at = end;
    }
  }
  return kept + text.slice(at);
}

/** A piece of a text, whose ends may be halves of secrets: long words there are left out. */
export function maskedPiece(text: string): string {
  return masked(text).replace(/^\S{16,}(?=\s)|(?<=\s)\S{16,}$/gu, "…");
}
