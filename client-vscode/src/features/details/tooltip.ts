/** The tooltip of a checkpoint: what was said, the numbers, the calls and the files. */

import * as vscode from "vscode";
import type { Span } from "../../core/sessions/log.js";
import type { CheckpointNode } from "../../core/tree/checkpointNodes.js";
import type { Place } from "../../core/tree/parts.js";
import { summaryOf } from "../../shared/spanSummary.js";
import { withDetail } from "../../shared/text/detail.js";
import { exact, files, fullTime, oneLine, relativeTime } from "../../shared/text/format.js";
import { callInWords, firstWords, grownInWords, wholeName } from "../../shared/text/happened.js";
import { gistOf } from "../../shared/text/message.js";
import { growthOf } from "./facts.js";

/** Characters of the text that it shows. */
const SHOWN = 500;
/** Characters of the name, which the editor does not wrap. */
const NAMED = 70;

/** Whether the text goes on in messages that have not been read. */
export function isCut({ log }: Place, { checkpoint, start, end }: Span): boolean {
  return end > start && summaryOf(checkpoint)?.text.endsWith("…") === true && log.read(start, end).length === 0;
}

export function tooltipOf(row: CheckpointNode): vscode.MarkdownString {
  const { checkpoint } = row.span;
  const text = new vscode.MarkdownString();
  const said = whatWasSaid(row);
  const name = firstWords(wholeName(checkpoint), NAMED);
  if (!oneLine(said).startsWith(name.replace(/…$/u, ""))) {
    text.appendText(name).appendMarkdown("\n\n"); // else it would be said twice
  }
  if (said !== "") {
    text.appendCodeblock(said, "text");
  }
  const when = checkpoint.createdAt === undefined ? [] : [fullTime(checkpoint.createdAt), relativeTime(checkpoint.createdAt)];
  const grown = grownInWords(growthOf(row));
  const lines = [[`#${exact(checkpoint.id)}`, ...when], grown === "" ? [] : [grown], filesInTooltip(checkpoint)].filter((line) => line.length > 0);
  text.appendMarkdown(lines.map((line) => line.join(" · ")).join("  \n"));
  return text.appendMarkdown(callsInTooltip(checkpoint));
}

/** The beginning of it: of the messages where they have been read, else of the summary. */
function whatWasSaid({ place, span: { checkpoint, start, end } }: CheckpointNode): string {
  const read = place.log.read(start, end).map(({ message }) => gistOf(message).trim());
  const gist = read.find((text) => text !== "") ?? summaryOf(checkpoint)?.text ?? checkpoint.preview ?? "";
  return gist.length > SHOWN ? `${gist.slice(0, SHOWN).replace(/[\uD800-\uDBFF]$/u, "")}…` : gist;
}

/** The calls in it with how they ended. */
function callsInTooltip(checkpoint: Span["checkpoint"]): string {
  const { calls = [], moreCalls = 0 } = summaryOf(checkpoint) ?? {};
  const lines = calls.map((call) => (call.failed ? `✗ ${cell(callInWords(call, 100))}` : cell(callInWords(call, 100))));
  const more = moreCalls === 0 ? [] : [vscode.l10n.t("… and {0} more", exact(moreCalls))];
  return lines.length === 0 ? "" : `\n\n${[...lines, ...more].map((line) => `- ${line}`).join("\n")}`;
}

function filesInTooltip({ files: saved }: Span["checkpoint"]): string[] {
  if (saved?.error) {
    return [cell(withDetail(vscode.l10n.t("files not saved"), saved.error.message))];
  }
  if (saved?.snapshot === undefined) {
    return [];
  }
  const skipped = saved.skipped ?? 0;
  return [vscode.l10n.t("files saved"), ...(skipped === 0 ? [] : [vscode.l10n.t("{0} left out", files(skipped))])];
}

/** Escape a text for a cell of a Markdown table. */
function cell(text: string): string {
  return oneLine(text, 200).replace(/[\\`*_{}[\]()#+\-.!|<>~&]/gu, "\\$&");
}
