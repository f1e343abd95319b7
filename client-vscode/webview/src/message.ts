/** One message as elements; a call stands in it with the message that answers it. */

import type { ShownCall, ShownMessage, ShownPart, TextPlace } from "../../src/features/page/wire.js";
import { answerCard, card, cards, folded, type CardWords, type Folds } from "./card.js";
import { button, make } from "./dom.js";
import { MOST_MARKDOWN, rendered } from "./markdown.js";
import { blocksOf } from "./prose.js";
import { plain } from "./terminal.js";
import { say, words } from "./words.js";

export interface MessageContext {
  /** The message that answers a call of this one; null: there is none; undefined: it is not here yet. */
  readonly answer: (message: ShownMessage, call: ShownCall) => ShownMessage | null | undefined;
  /** The call that a tool's message answers, where that is shown by itself. */
  readonly asked: (message: ShownMessage) => ShownCall | undefined;
  /** What has been read on of a text that was cut. */
  readonly more?: (place: TextPlace) => string;
  /** Asks for the next piece of a text; undefined: nothing can be asked for. */
  readonly readOn: ((place: TextPlace, from: number) => void) | undefined;
  /** What a person has unfolded stays so while the page lives, by keys. */
  readonly unfolded: Set<string>;
}

export function roleName(role: string): string {
  const known: Partial<Record<string, string>> = { user: words().user, assistant: words().assistant, system: words().system, tool: words().tool };
  return known[role] ?? role;
}

export function body(message: ShownMessage, context: MessageContext): HTMLElement {
  const element = make("div", { class: "body" });
  const shown = parts(message, context);
  if (message.role === "tool") {
    const asked = context.asked(message);
    element.append(answerCard(asked?.name ?? message.name ?? say("result"), message.failed === true, shown, cardWords));
    return element;
  }
  element.append(...shown, ...cards(message.calls.length, (at) => cardOf(message, at, context), `${message.index}/calls`, foldsOf(context)));
  if (message.parts.length === 0 && message.calls.length === 0) {
    element.append(make("p", { class: "quiet" }, say("noText")));
  }
  return element;
}

/** Said when they are needed: the page has its words by then. */
export const cardWords: CardWords = {
  get failed() { return say("failed"); },
  get noResult() { return say("noResult"); },
  get result() { return say("result"); },
  get addedLine() { return say("fileAdded"); },
  get removedLine() { return say("fileDeleted"); },
  get showLess() { return say("showLess"); },
  showMore: (count) => say("showMore", count),
};

function foldsOf({ unfolded }: MessageContext): Folds {
  return { unfolded, words: cardWords };
}

function cardOf(message: ShownMessage, at: number, context: MessageContext): HTMLElement {
  const call = message.calls[at] ?? { id: "", name: "", given: "" };
  const answer = context.answer(message, call);
  const place = { index: message.index, call: at };
  const given = call.given + (context.more?.(place) ?? "");
  const rendered = {
    name: call.name,
    given,
    ...(call.cut === undefined ? {} : { rest: rest(given, call.cut, place, context) }),
    answer: answer && parts(answer, context),
    failed: answer?.failed === true,
  };
  return card(rendered, `${message.index}/call/${at}`, foldsOf(context));
}

function parts(message: ShownMessage, context: MessageContext): HTMLElement[] {
  return message.parts.map((part, at) => partOf(part, message, `${message.index}/${at}`, at, context));
}

function partOf(part: ShownPart, message: ShownMessage, key: string, at: number, context: MessageContext): HTMLElement {
  switch (part.kind) {
    case "text":
    case "think": {
      const place = { index: message.index, part: at };
      const text = part.text + (context.more?.(place) ?? "");
      const shown = part.kind === "think" ? thought(text, key, context) : make("div", { class: "part" }, ...texts(text, message, key, context));
      if (part.cut !== undefined) {
        shown.append(rest(text, part.cut, place, context));
      }
      return shown;
    }
    case "picture":
      return picture(part.url);
    case "other":
      return make("div", { class: "other" }, make("p", { class: "quiet" }, part.type), make("pre", { tabindex: 0, dir: "auto" }, plain(part.text)));
  }
}

/** A program's output as it is; an agent's words as Markdown; of a person's, what was pasted as it was written. */
function texts(text: string, message: ShownMessage, key: string, context: MessageContext): HTMLElement[] {
  if (message.role === "tool" || text.length > MOST_MARKDOWN) {
    return [folded(text, key, foldsOf(context), message.failed)];
  }
  const blocks = message.role === "user" ? blocksOf(text) : [{ kind: "words" as const, text }];
  return blocks.map((block, at) => (block.kind === "output" ? folded(block.text, `${key}/${at}`, foldsOf(context)) : make("div", { class: "text" }, rendered(plain(block.text)))));
}

function thought(text: string, key: string, context: MessageContext): HTMLElement {
  const shown = text.length > MOST_MARKDOWN ? folded(text, key, foldsOf(context)) : rendered(plain(text));
  const details = make("details", { class: "thought" }, make("summary", {}, say("thought"), make("span", { class: "gist" }, oneLine(plain(text)))), make("div", { class: "text" }, shown));
  details.open = context.unfolded.has(key);
  details.addEventListener("toggle", () => (details.open ? context.unfolded.add(key) : context.unfolded.delete(key)));
  return details;
}

/** What the model is told before anything is said. */
export function systemPrompt(text: string, context: MessageContext): HTMLElement {
  const key = "prompt";
  const details = make("details", { class: "thought prompt" }, make("summary", {}, say("system")), make("div", { class: "text" }, text.length > MOST_MARKDOWN ? folded(text, key, foldsOf(context)) : rendered(plain(text))));
  details.open = context.unfolded.has(key);
  details.addEventListener("toggle", () => (details.open ? context.unfolded.add(key) : context.unfolded.delete(key)));
  return details;
}

function picture(url: string): HTMLElement {
  const image = make("img", { alt: say("picture") });
  image.addEventListener("error", () => image.replaceWith(make("p", { class: "quiet" }, say("unreadable"))));
  image.src = url;
  return make("div", { class: "picture" }, image);
}

function rest(text: string, whole: number, place: TextPlace, { readOn }: MessageContext): HTMLElement {
  const left = text.length < whole;
  return make("p", { class: "quiet" }, left ? say("cut", text.length, whole) : "", " ", left && readOn !== undefined && button(say("readOn"), () => readOn(place, text.length), { class: "link" }));
}

function oneLine(text: string): string {
  return text.slice(0, 200).replace(/\s+/gu, " ").trim();
}
