/** One message, and a call with the message that answers it, as elements. */

import type { ShownCall, ShownMessage, ShownPart } from "../../src/page/wire.js";
import { button, make } from "./dom.js";
import { editsOf, gistOf, membersIn, type Edit } from "./edits.js";
import { MOST_MARKDOWN, rendered } from "./markdown.js";
import { say, words } from "./words.js";

/** Lines of a result beyond which it is folded, and of what is shown then. */
export const FOLDED = 40;
const SHOWN = 14;
/** Calls of a message that are shown at once. */
const CALLS = 30;

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
  const key = String(message.index);
  if (message.role === "tool") {
    const asked = context.asked(message);
    element.append(make("div", { class: message.failed ? "card failed" : "card" },
      make("div", { class: "card-head" }, make("span", { class: "call-name" }, asked ? say("resultOf", asked.name) : (message.name ?? say("result"))), message.failed && badge()),
      make("div", { class: "card-body" }, ...parts(message, context))));
    return element;
  }
  element.append(...parts(message, context));
  const open = context.unfolded.has(`${key}/calls`);
  const shown = open ? message.calls : message.calls.slice(0, CALLS);
  element.append(...shown.map((call, at) => card(message, call, at, context)));
  const left = message.calls.length - shown.length;
  if (left > 0) {
    element.append(button(say("moreCalls", left), () => {
      context.unfolded.add(`${key}/calls`);
      element.replaceWith(body(message, context));
    }, { class: "fold" }));
  }
  if (message.parts.length === 0 && message.calls.length === 0) {
    element.append(make("p", { class: "quiet" }, say("noText")));
  }
  return element;
}

function badge(): HTMLElement {
  return make("span", { class: "badge" }, say("failed"));
}

function parts(message: ShownMessage, context: MessageContext): HTMLElement[] {
  return message.parts.map((part, at) => partOf(part, message, `${message.index}/${at}`, context));
}

function partOf(part: ShownPart, message: ShownMessage, key: string, context: MessageContext): HTMLElement {
  switch (part.kind) {
    case "text": {
      const plain = message.role === "tool" || part.text.length > MOST_MARKDOWN;
      const element = plain ? folded(part.text, key, context, message.failed) : make("div", { class: "text" }, rendered(part.text));
      return part.cut === undefined ? element : make("div", {}, element, rest(part.text, part.cut, message, context));
    }
    case "think": {
      const details = make("details", { class: "thought" }, make("summary", {}, say("thought"), make("span", { class: "gist" }, oneLine(part.text))), make("div", { class: "text" }, part.text.length > MOST_MARKDOWN ? folded(part.text, key, context) : rendered(part.text)));
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

/** Plain text; many lines are folded. Why something failed stands at the end, what else is said at the beginning. */
function folded(text: string, key: string, context: MessageContext, atEnd = false): HTMLElement {
  const lines = text.split("\n");
  const pre = make("pre", { dir: "auto", tabindex: 0 }, text);
  if (lines.length <= FOLDED) {
    return pre;
  }
  const fold = button("", () => {
    if (context.unfolded.has(key)) {
      context.unfolded.delete(key);
    } else {
      context.unfolded.add(key);
    }
    show();
  }, { class: "fold" });
  const show = (): void => {
    const open = context.unfolded.has(key);
    pre.textContent = open ? text : atEnd ? `⋯\n${lines.slice(-SHOWN).join("\n")}` : lines.slice(0, SHOWN).join("\n");
    fold.textContent = open ? say("showLess") : say("showLines", lines.length);
    fold.setAttribute("aria-expanded", String(open));
  };
  show();
  return make("div", { class: "folded" }, pre, fold);
}

function card(message: ShownMessage, call: ShownCall, at: number, context: MessageContext): HTMLElement {
  const key = `${message.index}/call/${at}`;
  const answer = context.answer(message, call);
  const failed = answer?.failed === true;
  const edits = editsOf(call.given);
  const head = make("div", { class: "card-head" },
    make("span", { class: "call-name" }, call.name),
    make("span", { class: "gist", dir: "auto" }, edits ? (edits[0]?.path ?? "") : gistOf(call.given)),
    failed && badge(),
    answer === null && make("span", { class: "badge waiting" }, say("noResult")));
  const asked = edits ? make("div", {}, ...edits.map(diff)) : argumentsOf(call, key, context);
  if (call.cut !== undefined) {
    asked.append(rest(call.given, call.cut, message, context));
  }
  const content = make("div", { class: "card-body" }, asked);
  if (answer) {
    content.append(make("div", { class: failed ? "answer failed" : "answer", "aria-label": say("result"), role: "group" }, ...parts(answer, context)));
  }
  return make("section", { class: failed ? "card failed" : "card", "aria-label": failed ? `${call.name}: ${say("failed")}` : call.name }, head, content);
}

function argumentsOf(call: ShownCall, key: string, context: MessageContext): HTMLElement {
  const members = membersIn(call.given);
  if (!members) {
    return make("div", {}, ...(call.given.trim() === "" ? [] : [folded(call.given, `${key}/given`, context)]));
  }
  const [only] = members;
  // The call's head says it already.
  if (members.length === 1 && only && !only[1].includes("\n") && only[1].length <= 80 && gistOf(call.given) === only[1].trim()) {
    return make("div", {});
  }
  return make("dl", { class: "members" }, ...members.flatMap(([name, value], at) => [
    make("dt", {}, name),
    make("dd", {}, value.includes("\n") || value.length > 200 ? folded(value, `${key}/${at}`, context) : make("code", { dir: "auto" }, value)),
  ]));
}

function diff({ path, lines }: Edit): HTMLElement {
  const rows = lines.map(({ mark, text }) => make("div", { class: `line ${mark}` },
    make("span", { class: "mark", ...(mark === "same" ? { "aria-hidden": "true" } : { role: "img", "aria-label": mark === "added" ? say("addedLine") : say("removedLine") }) }, mark === "added" ? "+" : mark === "removed" ? "−" : " "),
    make("span", { class: "line-text" }, text)));
  return make("div", { class: "diff", role: "group", "aria-label": `${say("edit")} ${path}`, tabindex: 0 }, ...rows);
}

function oneLine(text: string): string {
  return text.slice(0, 200).replace(/\s+/gu, " ").trim();
}

