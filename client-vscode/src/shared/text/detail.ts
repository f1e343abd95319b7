/** The server's words behind ours. */

import * as vscode from "vscode";

/**
 * A sentence of ours, and what exactly is wrong as the server says it, which is English: behind a colon in English, in brackets in
 * another language.
 *
 * @param rest What is said after that.
 */
export function withDetail(sentence: string, message: string, rest = ""): string {
  if (message === "") {
    return sentences(sentence, rest);
  }
  const whole = /[.!?]$/u.test(message) ? message : `${message}.`;
  return isEnglish() ? sentences(`${sentence.replace(/\.$/u, "")}: ${whole}`, rest) : sentences(`${sentence}（${message}）`, rest);
}

/** The server's words, which in English are a sentence of their own; in another language they stand behind one of ours. */
export function translated(sentence: string, message: string): string {
  const whole = /[.!?]$/u.test(message) ? message : `${message}.`;
  return isEnglish() ? whole.charAt(0).toUpperCase() + whole.slice(1) : withDetail(sentence, message);
}

/** Something under the name of what it is. */
export function headed(head: string, body: string): string {
  return `${head}${isChinese() ? "：" : ": "}${body}`;
}

/** One after the other; Chinese has no space between them. */
export function sentences(...parts: readonly string[]): string {
  return parts.filter((part) => part !== "").join(isChinese() ? "" : " ");
}

export function isChinese(): boolean {
  return /^zh\b/u.test(vscode.env.language);
}

function isEnglish(): boolean {
  return /^en\b/u.test(vscode.env.language);
}
