/** Numbers and times as people of the editor's language read them. */

import * as vscode from "vscode";
import type { RewriteResult } from "timeleap-client";
import { isChinese } from "./detail.js";

const MINUTE = 60_000;
const UNITS: readonly ["year" | "month" | "day" | "hour" | "minute", number][] = [
  ["year", 365 * 24 * 60 * MINUTE],
  ["month", 30 * 24 * 60 * MINUTE],
  ["day", 24 * 60 * MINUTE],
  ["hour", 60 * MINUTE],
  ["minute", MINUTE],
];

/** Formats of the editor's language, by what they format; making one takes longer than using it a hundred times. */
const formats = new Map<string, { readonly language: string; readonly format: unknown }>();

function formatOf<T>(name: string, make: (language: string) => T): T {
  const { language } = vscode.env;
  const known = formats.get(name);
  if (known?.language === language) {
    return known.format as T;
  }
  const format = make(language);
  formats.set(name, { language, format });
  return format;
}

/** "3 min. ago"; the full time where it cannot be told. */
export function relativeTime(iso: string, now = Date.now()): string {
  const age = now - Date.parse(iso);
  if (Number.isNaN(age)) {
    return iso;
  }
  const [unit, length] = UNITS.find(([, size]) => Math.abs(age) >= size) ?? ["second", 1_000];
  if (unit === "second") {
    return vscode.l10n.t("just now");
  }
  const format = formatOf("age", (language) => new Intl.RelativeTimeFormat(language, { style: "short", numeric: "always" }));
  return format.format(-Math.trunc(age / length), unit);
}

/** "2m": the age alone, where there is room for little. */
export function age(iso: string, now = Date.now()): string {
  const passed = Math.abs(now - Date.parse(iso));
  if (Number.isNaN(passed)) {
    return "";
  }
  // Not months: "2m" is two minutes.
  const [unit, length] = UNITS.find(([name, size]) => name !== "month" && passed >= size) ?? ["second", 1_000];
  if (unit === "second") {
    return vscode.l10n.t("now");
  }
  const format = formatOf(unit, (language) => new Intl.NumberFormat(language, { style: "unit", unit, unitDisplay: "narrow" }));
  return format.format(Math.trunc(passed / length));
}

/** The time in full, for tooltips. */
export function fullTime(iso: string): string {
  const time = new Date(iso);
  return Number.isNaN(time.getTime()) ? iso : formatOf("time", (language) => new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "medium" })).format(time);
}

/** "12.3K" */
export function short(count: number): string {
  return formatOf("short", (language) => new Intl.NumberFormat(language, { notation: "compact", maximumFractionDigits: 1 })).format(count);
}

/** "12,345" */
export function exact(count: number): string {
  return formatOf("exact", (language) => new Intl.NumberFormat(language)).format(count);
}

/** @param text What is said of one, and behind the bar what is said of more: `1 file | {0} files`. */
function counted(text: string, count: number, shown = exact(count)): string {
  const [one = "", many = ""] = text.split(" | ");
  return count === 1 ? one : many.replace("{0}", shown);
}

export function messages(count: number): string {
  return counted(vscode.l10n.t("1 message | {0} messages"), count);
}

export function checkpoints(count: number): string {
  return counted(vscode.l10n.t("1 checkpoint | {0} checkpoints"), count);
}

export function files(count: number): string {
  return counted(vscode.l10n.t("1 file | {0} files"), count);
}

export function filesChanged(count: number): string {
  return counted(vscode.l10n.t("1 file changed | {0} files changed"), count);
}

export function bytes(count: number): string {
  return counted(vscode.l10n.t("1 byte | {0} bytes"), count);
}

/** How many tokens a conversation has, wherever that is said: as the model reported last, and an estimate of what came since. */
export function tokensUsed({ tokenCountWithPending }: { readonly tokenCountWithPending: number }): number {
  return tokenCountWithPending;
}

/** A reported number; undefined: there are messages, and none was reported. */
export function tokensReported({ tokenCount, messageCount }: { readonly tokenCount: number; readonly messageCount: number }): number | undefined {
  return tokenCount === 0 && messageCount > 0 ? undefined : tokenCount;
}

/** "12.3K tokens" */
export function tokens(count: number): string {
  return counted(vscode.l10n.t("1 token | {0} tokens"), count, short(count));
}

/** "12,345 tokens" */
export function exactTokens(count: number): string {
  return counted(vscode.l10n.t("1 token | {0} tokens"), count);
}

/** What goes, in words. */
export function amount({ removed }: Pick<RewriteResult, "removed">): string {
  return listed([messages(removed.messages), checkpoints(removed.checkpoints), removed.tokens > 0 ? tokens(removed.tokens) : ""]);
}

/** The same of what has something put in its place, a summary or a note, with its checkpoint: the server counts that against what goes. */
export function amountReplaced({ removed }: Pick<RewriteResult, "removed">): string {
  return amount({ removed: { ...removed, messages: removed.messages + 1, checkpoints: removed.checkpoints + 1 } });
}

/** One after the other, as a list is written. */
export function listed(parts: readonly string[]): string {
  return parts.filter((part) => part !== "").join(isChinese() ? "，" : ", ");
}

/** What a terminal takes for colours, titles and moves of its cursor. */
const SEQUENCES = /(?:\u001b\[|\u009b)[0-?]*[ -/]*[@-~]|(?:\u001b[\]PX^_]|[\u0090\u0098\u009d-\u009f])[^\u0007\u001b\u009c\n]*(?:\u0007|\u001b\\|\u009c)?|\u001b[ -/]*[0-~]/gu;
/** Other control characters, and marks that turn around what stands after them, beyond the text itself. */
const CONTROLS = /[\u0000-\u0008\u000e-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/gu;

/** On one line, cut where it would be longer than a row shows anyway. */
export function oneLine(text: string, length = 120): string {
  const line = text.slice(0, length * 4).replace(SEQUENCES, "").replace(CONTROLS, "").replace(/\s+/gu, " ").trim();
  // Not between the halves of a surrogate pair.
  return line.length > length ? `${line.slice(0, length - 1).replace(/[\uD800-\uDBFF]$/u, "")}…` : line;
}
