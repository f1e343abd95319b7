/** Conversations as Markdown. */

import * as vscode from "vscode";
import type { HistoryMessage, Message } from "timeleap-client";
import { argumentsOf, callsOf, partsOf, type Part } from "../text/message.js";
import { roleName } from "../views/messageNodes.js";

/** Messages one after the other, each under a heading of its own. */
export function markdownOf(entries: readonly HistoryMessage[]): string {
  return entries.map(({ index, message }) => messageAsMarkdown(index, message)).join("\n");
}

export function messageAsMarkdown(index: number, message: Message): string {
  const name = typeof message.name === "string" ? ` (${message.name})` : "";
  const sections = [
    `## ${index} · ${roleName(message.role)}${name}`,
    // A tool's output is no Markdown, whatever it looks like.
    ...partsOf(message).map((part) => (message.role === "tool" && part.kind === "text" ? fenced(part.text) : partAsMarkdown(part))),
    ...callsOf(message).map((call) => `**${vscode.l10n.t("Calls {0}", `\`${call.function.name}\``)}**\n\n${fenced(call.function.arguments ?? argumentsOf(call), "json")}`),
  ];
  return `${sections.join("\n\n")}\n`;
}

function partAsMarkdown(part: Part): string {
  switch (part.kind) {
    case "text":
      return part.text.trimEnd();
    case "think":
      return part.text
        .trimEnd()
        .split("\n")
        .map((line) => `> ${line}`.trimEnd())
        .join("\n");
    case "media":
      return `*[${part.type}: ${part.url.startsWith("data:") ? vscode.l10n.t("{0} characters of data", part.url.length) : part.url}]*`;
  }
}

/** A fence that the text cannot close. */
function fenced(text: string, language = ""): string {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([run]) => run.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}${language}\n${text.trimEnd()}\n${fence}`;
}
