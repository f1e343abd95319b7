/** The words that are looked for: typed, found, gone through, and marked where they are in sight. */

import type { Hit } from "../../src/features/page/wire.js";
import { button, icon, ICONS, make } from "./dom.js";
import { exact, say } from "./words.js";

/** Milliseconds without a keystroke after which is searched. */
const PAUSE = 200;

export interface SearchActions {
  readonly ask: (search: number, query: string) => void;
  readonly go: (hit: Hit) => void;
  readonly changed: () => void;
}

export class SearchBox {
  readonly element: HTMLElement;
  readonly input = make("input", { type: "search", placeholder: say("search"), "aria-label": say("search"), spellcheck: "false" });
  private readonly count = make("span", { class: "count", role: "status" });
  private hits: readonly Hit[] = [];
  private more = false;
  private at = -1;
  private number = 0;
  private waiting = 0;
  private asking: "anew" | "again" = "anew";
  /** What is marked in the text. */
  query = "";

  constructor(private readonly actions: SearchActions) {
    this.element = make("div", { class: "search", role: "search" }, this.input, this.count,
      button(say("previous"), () => this.step(-1), { class: "tool" }, icon(ICONS.up)),
      button(say("next"), () => this.step(1), { class: "tool" }, icon(ICONS.down)));
    this.input.addEventListener("input", () => {
      window.clearTimeout(this.waiting);
      this.waiting = window.setTimeout(() => this.begin(), PAUSE);
    });
    this.input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") {
        event.preventDefault();
        this.step(event.shiftKey ? -1 : 1);
      } else if (event.key === "Escape") {
        this.input.value = "";
        this.begin();
      }
    });
  }

  take(search: number, hits: readonly Hit[], more: boolean, problem: string | undefined): void {
    if (search !== this.number) {
      return;
    }
    const before = this.hits[this.at];
    this.hits = hits;
    this.more = more;
    this.at = this.asking === "again" ? hits.findIndex(({ index, timeline }) => index === before?.index && timeline === before.timeline) : -1;
    if (problem !== undefined || hits.length === 0) {
      this.count.textContent = problem ?? say("nothingFound");
    } else if (this.asking === "again") {
      this.tell();
    } else {
      this.step(1);
    }
  }

  /** Looks for what is looked for once more: another log has taken the place of the one before. Nobody is taken anywhere. */
  again(): void {
    if (this.input.value.trim() !== "" && this.query !== "") {
      this.ask("again");
    }
  }

  /** Marks words without looking for others. */
  mark(query: string): void {
    this.query = query;
    this.actions.changed();
  }

  private begin(): void {
    this.query = this.input.value.trim();
    this.hits = [];
    this.at = -1;
    this.count.textContent = "";
    this.ask("anew");
    this.actions.changed();
  }

  private ask(how: "anew" | "again"): void {
    this.asking = how;
    this.number += 1;
    if (this.query !== "") {
      this.actions.ask(this.number, this.query);
    }
  }

  private tell(): void {
    const at = this.at === -1 ? "–" : exact(this.at + 1);
    this.count.textContent = `${at} / ${exact(this.hits.length)}${this.more ? "+" : ""}`;
  }

  private step(by: number): void {
    const { hits } = this;
    if (hits.length === 0) {
      return;
    }
    this.at = this.at === -1 && by < 0 ? hits.length - 1 : (this.at + by + hits.length) % hits.length;
    this.tell();
    const hit = hits[this.at];
    if (hit) {
      this.count.title = hit.preview;
      this.actions.go(hit);
    }
  }
}

/** Marks words in elements; nothing is changed in them. */
export function highlight(elements: readonly HTMLElement[], query: string): void {
  if (!("highlights" in CSS)) {
    return;
  }
  const ranges: Range[] = [];
  const wanted = query.toLowerCase();
  if (wanted !== "") {
    for (const element of elements) {
      const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
      for (let node = walker.nextNode(); node && ranges.length < 2_000; node = walker.nextNode()) {
        const text = (node.textContent ?? "").toLowerCase();
        for (let at = text.indexOf(wanted); at !== -1 && ranges.length < 2_000; at = text.indexOf(wanted, at + wanted.length)) {
          const range = new Range();
          range.setStart(node, at);
          range.setEnd(node, Math.min(at + wanted.length, node.textContent?.length ?? 0));
          ranges.push(range);
        }
      }
    }
  }
  CSS.highlights.set("found", new Highlight(...ranges));
}
