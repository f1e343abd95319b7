/** Two states of a conversation, or of two, and what each has that the other has not. */

import type { ShownMessage, ToPage } from "../../src/features/page/wire.js";
import { button, icon, ICONS, make } from "./dom.js";
import { body, roleName, type MessageContext } from "./message.js";
import { counted, exact, say } from "./words.js";

type Comparison = Extract<ToPage, { kind: "comparison" }>;

export function comparisonName({ names: [from, to] }: Comparison): string {
  return `${from} ↔ ${to}`;
}

export function comparison(found: Comparison, context: MessageContext, close: () => void): HTMLElement[] {
  const { names: [from, to], common, tokens, removed, removedCount, added, addedCount } = found;
  const change = tokens ? ` ${exact(tokens[0])} → ${counted("tokens", tokens[1])}` : "";
  return [
    make("header", {}, make("h2", { dir: "auto" }, comparisonName(found)), button(say("close"), close, { class: "tool" }, icon(ICONS.close))),
    make("p", { class: "facts" }, `${say("common", counted("messages", common))}${change}`),
    make("div", { class: "sides" }, side(from, removed, removedCount, "removed", context), side(to, added, addedCount, "added", context)),
  ];
}

/** Both sides are whole messages: their calls are shown with the answers among them. */
function side(name: string, list: readonly ShownMessage[], count: number, mark: string, page: MessageContext): HTMLElement {
  const context: MessageContext = {
    ...page,
    answer: (message, call) => list.find((other) => other.index > message.index && other.answers === call.id && call.id !== "") ?? null,
    asked: (message) => list.flatMap(({ calls }) => calls).find(({ id }) => id === message.answers),
    unfolded: new Set(),
    readOn: undefined,
  };
  const merged = new Set(list.flatMap((message) => message.calls.map((call) => context.answer(message, call)?.index)));
  const rows = list.filter(({ index }) => !merged.has(index)).map((message) => make("article", { class: `row ${message.role}` },
    make("div", { class: "row-head" }, make("span", { class: "role" }, roleName(message.role)), make("span", { class: "number" }, exact(message.index))),
    body(message, context)));
  const title = say("onlyIn", name, counted("messages", count));
  return make("section", { class: `side ${mark}`, "aria-label": title }, make("h3", { dir: "auto" }, title), ...rows,
    count > list.length && make("p", { class: "quiet" }, say("andMore", count - list.length)));
}
