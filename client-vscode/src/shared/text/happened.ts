/** What happened in a span, in words. */

import * as vscode from "vscode";
import type { Checkpoint, Message } from "timeleap-client";
import { summaryOf, type SpanCall, type SpanSummary } from "../spanSummary.js";
import { exact, listed, messages, oneLine, tokens as tokensInWords } from "./format.js";
import { argumentsOf, callsOf, gistOf } from "./message.js";
import { headed } from "./detail.js";

/** Characters of a name as a server gives it, more than any. */
const NAMED = 240;
/** Characters of a few words, and from where on a cut between two words is better than one within a word. */
const ROW = 22;
const ENOUGH = 12;
/** Characters of a name in a question or a list. */
const NAME = 50;

/** Tools whose name says nothing beside the command that they are given. */
const SHELLS = /^(?:local_)?(?:bash|sh|zsh|shell|powershell|terminal|run|exec|execute|command|cmd)(?:_(?:shell|terminal|bash|command|cmd|shell_command))?$/iu;

/** What a command does only to get to its place, or to watch its end. */
const PREAMBLE = /^(?:(?:cd|pushd)\s+(?:"[^"]*"|'[^']*'|\S+)\s*(?:&&|;)\s*|set\s+-\w+(?:\s+pipefail)?\s*(?:&&|;)\s*|(?:[A-Z_][A-Z0-9_]*=\S+\s+)+)+/u;

/** The first words that fit, cut between two of them where that leaves enough. */
export function firstWords(text: string, length = ROW): string {
  const line = oneLine(text, length * 4);
  if (line.length <= length) {
    return line;
  }
  const cut = line.slice(0, length + 1);
  const space = cut.lastIndexOf(" ");
  const words = space >= Math.min(ENOUGH, length / 2) ? cut.slice(0, space) : cut.slice(0, length - 1).replace(/[\uD800-\uDBFF]$/u, "");
  return `${words.replace(/[\s,.;:–—-]+$/u, "")}…`;
}

/** "pytest tests" for a shell's command, "edit bill.py" for a file, else the name with what it was given. */
export function callInWords({ name, argument = "" }: SpanCall, length = ROW): string {
  const given = oneLine(argument, 200);
  if (given === "") {
    return firstWords(name, length);
  }
  if (SHELLS.test(name)) {
    return firstWords(given.replace(PREAMBLE, "") || given, length);
  }
  const path = /^[^\s]*[\\/]([^\\/\s]+)$/u.exec(given);
  return firstWords(`${name} ${path?.[1] ?? given}`, length);
}

/** What a person calls it, as a whole line: the server names it. One of an earlier version does not. */
export function wholeName({ id, name, label, preview }: Checkpoint): string {
  const words = [name, label, preview].map((text) => oneLine(text ?? "", NAMED)).find((line) => line !== "");
  return words ?? vscode.l10n.t("Checkpoint {0}", `#${id}`);
}

/** The same in the room of a question or a list. */
export function checkpointName(checkpoint: Checkpoint): string {
  return firstWords(wholeName(checkpoint), NAME);
}

/** What a timeline has that the present has not: "50 messages: first … last". */
export function lostInWords({ lost, first, last }: { readonly lost: number; readonly first?: Message; readonly last?: Message }, length: number): string {
  const words = [first, last].flatMap((message) => (message ? [messageInWords(message, length)] : [])).filter((text) => text !== "");
  // Where the first is cut there are dots already.
  const said = words.join(" … ").replace("… … ", " … ");
  if (lost === 0) {
    return said;
  }
  return said === "" ? messages(lost) : headed(messages(lost), said);
}

function messageInWords(message: Message, length: number): string {
  const gist = firstWords(gistOf(message), length);
  const [call] = callsOf(message);
  return gist === "" && call ? callInWords({ name: call.function.name, argument: argumentsOf(call) }, length) : gist;
}

/** What the span came to. */
export interface Growth {
  readonly messages: number;
  /** Undefined: not known. */
  readonly tokens: number | undefined;
}

/** For ears and tooltips, in full words. */
export function grownInWords({ messages: count, tokens }: Growth): string {
  return listed([count === 0 ? "" : `+${messages(count)}`, tokens === undefined || tokens === 0 ? "" : `${signOf(tokens)}${tokensInWords(Math.abs(tokens))}`]);
}

export function failures(errors: number): string {
  return errors === 0 ? "" : vscode.l10n.t("{0} failed", exact(errors));
}

function signOf(count: number): string {
  return count > 0 ? "+" : "−";
}

/** How a row looks for what happened; what failed is seen by its form, too, not by colour alone. */
export function happenedIcon(checkpoint: Checkpoint): { readonly icon: string; readonly color?: string } {
  const summary = summaryOf(checkpoint);
  const failed = (summary?.errors ?? 0) > 0;
  const icon = isDMailLabel(checkpoint.label) ? "mail-read" : checkpoint.label === undefined ? (failed ? "error" : KIND_ICONS[summary?.kind ?? "empty"]) : "bookmark";
  return failed ? { icon, color: "list.errorForeground" } : { icon };
}

const KIND_ICONS: Readonly<Record<SpanSummary["kind"], string>> = {
  prompt: "account",
  calls: "tools",
  text: "sparkle",
  compacted: "fold",
  dmail: "mail-read",
  empty: "circle-outline",
};

/** How the server labels the checkpoint before a note that has arrived. */
function isDMailLabel(label: string | undefined): boolean {
  return label !== undefined && /^D-Mail( from .+)?$/u.test(label);
}
