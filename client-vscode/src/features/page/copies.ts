/** A message for the clipboard: as Markdown, which most of them are written in, or as JSON. */

import type { Message } from "timeleap-client";
import { elementsOf, indented, memberOf } from "../../shared/text/json.js";
import { argumentsOf, callsOf, partsOf } from "../../shared/text/message.js";

/** @param roleName what a role is called */
export function messageAsMarkdown(index: number, message: Message, roleName: (role: string) => string): string {
  const parts = partsOf(message).map((part) => (part.kind === "media" ? `[${part.type}]` : message.role === "tool" ? fenced(part.text) : part.kind === "think" ? quoted(part.text) : part.text.trimEnd()));
  const calls = callsOf(message).map((call) => {
    const given: unknown = call.function.arguments;
    return `**${call.function.name}**\n\n${fenced(typeof given === "string" ? given : argumentsOf(call), "json")}`;
  });
  return `${[`## ${index} · ${roleName(message.role)}`, ...parts, ...calls].join("\n\n")}\n`;
}

/** The one message of a reply, as it is written there: numbers that JavaScript would round stay as they are. */
export function messageAsJson(reply: string): string {
  const [entry = ""] = elementsOf(memberOf(memberOf(reply, "result") ?? "", "messages") ?? "");
  return `${indented(memberOf(entry, "message") ?? "")}\n`;
}

/** In a fence that the text cannot close. */
function fenced(text: string, language = ""): string {
  const longest = Math.max(2, ...[...text.matchAll(/`+/gu)].map(([run]) => run.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}${language}\n${text.trimEnd()}\n${fence}`;
}

function quoted(text: string): string {
  return text.trimEnd().replace(/^/gmu, "> ");
}
