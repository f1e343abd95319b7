/** One message as elements; a call stands in it with the message that answers it. */

import type { ShownCall, ShownMessage, ShownPart } from "../../src/features/page/wire.js";
import { answerCard, card, cards, folded, type CardWords, type Folds } from "./card.js";
import { button, make } from "./dom.js";
import { MOST_MARKDOWN, rendered } from "./markdown.js";
import { say, words } from "./words.js";

export interface MessageContext {
  /** The message that answers a call of this one; null: there is none; undefined: it is not here yet. */
  readonly answer: (message: ShownMessage, call: ShownCall) => ShownMessage | null | undefined;
  /** The call that a tool's message answers, where that is shown by itself. */
  readonly asked: (message: ShownMessage) => ShownCall | undefined;
  readonly openDocument: (index: number) => void;
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
    element.append(answerCard(asked ? say("resultOf", asked.name) : (message.name ?? say("result")), message.failed === true, shown, cardWords));
    return element;
  }
  element.append(...shown, ...cards(message.calls.length, (at) => cardOf(message, at, context), `${message.index}/calls`, foldsOf(context)));
  if (message.parts.length === 0 && message.calls.length === 0) {
    element.append(make("p", { class: "quiet" }, say("noText")));
  }
  return element;
}

/** Said when they are needed: the page has its words by then. */
const cardWords: CardWords = {
  get failed() { return say("failed"); },
  get noResult() { return say("noResult"); },
  get result() { return say("result"); },
  get edit() { return say("edit"); },
  get addedLine() { return say("addedLine"); },
  get removedLine() { return say("removedLine"); },
  get showLess() { return say("showLess"); },
  showLines: (lines) => say("showLines", lines),
  moreCalls: (calls) => say("moreCalls", calls),
};

function foldsOf({ unfolded }: MessageContext): Folds {
  return { unfolded, words: cardWords };
}

function cardOf(message: ShownMessage, at: number, context: MessageContext): HTMLElement {
  const call = message.calls[at] ?? { id: "", name: "", given: "" };
  const answer = context.answer(message, call);
  const rendered = {
    name: call.name,
    given: call.given,
    ...(call.cut === undefined ? {} : { rest: rest(call.given, call.cut, message, context) }),
    answer: answer && parts(answer, context),
    failed: answer?.failed === true,
  };
  return card(rendered, `${message.index}/call/${at}`, foldsOf(context));
}

function parts(message: ShownMessage, context: MessageContext): HTMLElement[] {
  return message.parts.map((part, at) => partOf(part, message, `${message.index}/${at}`, context));
}

function partOf(part: ShownPart, message: ShownMessage, key: string, context: MessageContext): HTMLElement {
  switch (part.kind) {
    case "text": {
      const plain = message.role === "tool" || part.text.length > MOST_MARKDOWN;
      const element = plain ? folded(part.text, key, foldsOf(context), message.failed) : make("div", { class: "text" }, rendered(part.text));
      return part.cut === undefined ? element : make("div", {}, element, rest(part.text, part.cut, message, context));
    }
    case "think": {
      const details = make("details", { class: "thought" }, make("summary", {}, say("thought"), make("span", { class: "gist" }, oneLine(part.text))), make("div", { class: "text" }, part.text.length > MOST_MARKDOWN ? folded(part.text, key, foldsOf(context)) : rendered(part.text)));
      details.open = context.unfolded.has(key);
      details.addEventListener("toggle", () => (details.open ? context.unfolded.add(key) : context.unfolded.delete(key)));
      if (part.cut !== undefined) {
        details.append(rest(part.text, part.cut, message, context));
      }
      return details;
    }
    case "picture":
      return picture(part.url);
    case "other":
      return make("div", { class: "other" }, make("p", { class: "quiet" }, say("part", part.type)), make("pre", { tabindex: 0, dir: "auto" }, part.text));
  }
}

function picture(url: string): HTMLElement {
  const image = make("img", { alt: say("picture") });
  image.addEventListener("error", () => image.replaceWith(make("p", { class: "quiet" }, say("brokenPicture"))));
  image.src = url;
  return make("div", { class: "picture" }, image);
}

function rest(text: string, whole: number, message: ShownMessage, context: MessageContext): HTMLElement {
  return make("p", { class: "quiet" }, say("cut", text.length, whole), " ", button(say("document"), () => context.openDocument(message.index), { class: "link" }));
}

function oneLine(text: string): string {
  return text.slice(0, 200).replace(/\s+/gu, " ").trim();
}

