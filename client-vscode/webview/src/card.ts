/** Tool calls as cards. */

import { button, make } from "./dom.js";
import { editsOf, gistOf, membersIn, type Edit } from "./edits.js";
import { plain, runsOf } from "./terminal.js";

/** Lines, and characters, beyond which a text is folded; and of what is shown then. */
export const FOLDED = 40;
const FOLDED_CHARACTERS = 64 * 1024;
const SHOWN = 14;
const SHOWN_CHARACTERS = 4 * 1024;
/** Characters of arguments that are read as edits or by their members; longer ones are shown as they are written. */
const MOST_READ = 256 * 1024;
/** Calls of a message that are shown at once. */
const CALLS = 30;

/** What cards say, in the page's language. */
export interface CardWords {
  readonly failed: string;
  readonly noResult: string;
  readonly result: string;
  readonly addedLine: string;
  readonly removedLine: string;
  readonly showLess: string;
  readonly showMore: (count: number) => string;
}

export interface Folds {
  /** What a person has unfolded, by keys. */
  readonly unfolded: Set<string>;
  readonly words: CardWords;
}

export interface AnsweredCall {
  readonly name: string;
  /** As the model wrote them. */
  readonly given: string;
  /** Stands under the arguments. */
  readonly rest?: HTMLElement;
  /** What shows the answer; null: there is none; undefined: it is not here yet. */
  readonly answer: readonly HTMLElement[] | null | undefined;
  readonly failed: boolean;
}

/** The first ones of many, and a button for the others. */
export function cards(count: number, cardAt: (at: number) => HTMLElement, key: string, { unfolded, words }: Folds): HTMLElement[] {
  const shown = unfolded.has(key) ? count : Math.min(count, CALLS);
  const made = Array.from({ length: shown }, (_, at) => cardAt(at));
  if (shown < count) {
    const more = button(words.showMore(count - shown), () => {
      unfolded.add(key);
      more.replaceWith(...Array.from({ length: count - shown }, (_, at) => cardAt(shown + at)));
    }, { class: "fold", "aria-expanded": "false" });
    made.push(more);
  }
  return made;
}

export function card({ name, given, rest, answer, failed }: AnsweredCall, key: string, folds: Folds): HTMLElement {
  const { words } = folds;
  const readable = given.length <= MOST_READ;
  const edits = readable ? editsOf(given) : undefined;
  const head = make("div", { class: "card-head" },
    make("span", { class: "call-name" }, name),
    make("span", { class: "gist", dir: "auto" }, plain(edits ? (edits[0]?.path ?? "") : readable ? gistOf(given) : given.slice(0, 400))),
    failed && badge(words),
    answer === null && make("span", { class: "badge waiting" }, words.noResult));
  const asked = edits ? make("div", {}, ...edits.map((edit) => diff(edit, words))) : readable ? argumentsOf(given, key, folds) : make("div", {}, folded(given, `${key}/given`, folds));
  if (rest) {
    asked.append(rest);
  }
  const content = make("div", { class: "card-body" }, asked);
  if (answer) {
    content.append(make("div", { class: failed ? "answer failed" : "answer", "aria-label": words.result, role: "group" }, ...answer));
  }
  return make("section", { class: failed ? "card failed" : "card", "aria-label": failed ? `${name}: ${words.failed}` : name }, head, content);
}

/** An answer whose call is elsewhere. */
export function answerCard(title: string, failed: boolean, parts: readonly HTMLElement[], words: CardWords): HTMLElement {
  return make("div", { class: failed ? "card failed" : "card" },
    make("div", { class: "card-head" }, make("span", { class: "call-name" }, title), failed && badge(words)),
    make("div", { class: "card-body" }, ...parts));
}

/** Output of a program, in its colours; many lines are folded. Why something failed stands at the end, what else is said at the beginning. */
export function folded(text: string, key: string, { unfolded, words }: Folds, atEnd = false): HTMLElement {
  const lines = text.split("\n");
  const pre = make("pre", { dir: "auto", tabindex: 0 });
  const write = (shown: string): void => pre.replaceChildren(...runsOf(shown).map(({ text: run, look }) => (look === "" ? run : make("span", { class: look }, run))));
  if (lines.length <= FOLDED && text.length <= FOLDED_CHARACTERS) {
    write(text);
    return pre;
  }
  const fold = button("", () => {
    if (unfolded.has(key)) {
      unfolded.delete(key);
    } else {
      unfolded.add(key);
    }
    show();
  }, { class: "fold" });
  const some = (): string => (atEnd ? `⋯\n${lines.slice(-SHOWN).join("\n").slice(-SHOWN_CHARACTERS)}` : lines.slice(0, SHOWN).join("\n").slice(0, SHOWN_CHARACTERS));
  const show = (): void => {
    const open = unfolded.has(key);
    write(open ? text : some());
    fold.textContent = open ? words.showLess : words.showMore(lines.length - SHOWN);
    fold.setAttribute("aria-expanded", String(open));
  };
  show();
  return make("div", { class: "folded" }, pre, fold);
}

function badge({ failed }: CardWords): HTMLElement {
  return make("span", { class: "badge" }, failed);
}

function argumentsOf(given: string, key: string, folds: Folds): HTMLElement {
  const members = membersIn(given);
  if (!members) {
    return make("div", {}, ...(given.trim() === "" ? [] : [folded(given, `${key}/given`, folds)]));
  }
  const [only] = members;
  // The call's head says it already.
  if (members.length === 1 && only && !only[1].includes("\n") && only[1].length <= 80 && gistOf(given) === only[1].trim()) {
    return make("div", {});
  }
  return make("dl", { class: "members" }, ...members.flatMap(([name, value], at) => [
    make("dt", {}, name),
    make("dd", {}, value.includes("\n") || value.length > 200 ? folded(value, `${key}/${at}`, folds) : make("code", { dir: "auto" }, plain(value))),
  ]));
}

export function diff({ path, lines }: Edit, words: CardWords): HTMLElement {
  const rows = lines.map(({ mark, text }) => make("div", { class: `line ${mark}` },
    make("span", { class: "sign", ...(mark === "same" ? { "aria-hidden": "true" } : { role: "img", "aria-label": mark === "added" ? words.addedLine : words.removedLine }) }, mark === "added" ? "+" : mark === "removed" ? "−" : " "),
    make("span", { class: "line-text" }, plain(text))));
  return make("div", { class: "diff", role: "group", "aria-label": path, tabindex: 0 }, ...rows);
}
