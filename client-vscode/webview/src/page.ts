/** The page: what its host tells is shown, what a person does is told. */

import type { Action, Facts, FromPage, Point, ShownCheckpoint, TextPlace, ToPage } from "../../src/features/page/wire.js";
import type { Sheet } from "../../src/shared/sheet.js";
import { comparison, comparisonName } from "./comparison.js";
import { button, icon, ICONS, make } from "./dom.js";
import { ChangedFiles } from "./files.js";
import type { Host } from "./host.js";
import { cardWords, type MessageContext } from "./message.js";
import { Overview } from "./overview.js";
import { Rows } from "./rows.js";
import { Scroller } from "./scroller.js";
import { highlight, SearchBox } from "./search.js";
import { sheet } from "./sheet.js";
import { Messages } from "./store.js";
import { counted, exact, say, short } from "./words.js";

export class Page {
  private readonly messages = new Messages((from, to) => this.tell({ kind: "read", epoch: this.facts?.epoch ?? 0, from, to }));
  private facts: Facts | undefined;
  private checkpoints: ShownCheckpoint[] = [];
  /** Pages of checkpoints, until all have come. */
  private readonly arriving: ShownCheckpoint[] = [];
  /** What has been read on of texts that were cut. */
  private readonly more = new Map<string, string>();
  private lost = false;
  private focused = 0;
  private reported = -1;

  private readonly title = make("h1", {});
  private readonly subtitle = make("p", { class: "facts" });
  private readonly tools = make("div", { class: "tools" });
  private readonly trouble = make("div", { class: "trouble", role: "status" });
  private readonly feed = make("section", { class: "feed", role: "feed", "aria-label": say("conversation"), tabindex: 0 });
  /** A comparison, or something else to read, above the conversation. */
  private readonly over = make("section", { class: "over", hidden: true, tabindex: -1 });
  private readonly newest = button(say("newMessages"), () => this.scroller.go(Infinity), { class: "newest", hidden: true });
  private readonly empty = make("p", { class: "empty", hidden: true }, say("empty"));
  private readonly context: MessageContext = {
    answer: (message, call) => this.rows.answerOf(message, call),
    asked: (message) => this.rows.callOf(message)?.call,
    more: (place) => this.more.get(keyOf(place)) ?? "",
    readOn: (place, from) => this.tell({ kind: "text", epoch: this.facts?.epoch ?? 0, place, from }),
    unfolded: new Set(),
  };
  private readonly files = new ChangedFiles((message) => this.tell(message), cardWords, () => this.scroller.draw());
  private readonly rows = new Rows({
    messages: this.messages,
    files: this.files,
    context: this.context,
    facts: () => this.facts,
    tell: (message) => this.tell(message),
    act: (action, index) => this.act(action, index),
    focused: (index) => (this.focused = index),
  });
  private readonly scroller: Scroller = new Scroller(this.feed, {
    draw: (index) => this.rows.row(index),
    version: (index) => this.rows.version(index),
    settled: (index) => this.messages.peek(index) !== undefined,
    onDraw: () => this.highlight(),
    onMove: (top) => this.moved(top),
  });
  private readonly overview: Overview;
  private readonly search = new SearchBox({
    ask: (search, query) => this.tell({ kind: "search", search, query }),
    go: ({ index, timeline }) => {
      if (timeline === this.facts?.timeline) {
        this.scroller.go(index);
      } else {
        this.tell({ kind: "log", index, ...(timeline === undefined ? {} : { timeline }) });
      }
    },
    changed: () => this.highlight(),
  });

  /** @param alone the page is a file of its own */
  constructor(
    root: HTMLElement,
    private readonly host: Host,
    alone = false,
  ) {
    this.overview = new Overview({
      go: (index) => this.scroller.go(index),
      showLog: (timeline) => this.tell({ kind: "log", ...(timeline === undefined ? {} : { timeline }) }),
      compare: (from, to) => this.tell({ kind: "compare", from: this.pointOf(from), to: to ? this.pointOf(to) : {} }),
      compareWith: alone ? undefined : (from) => this.tell({ kind: "compareWith", from: this.pointOf(from) }),
    });
    const toggle = button(say("overview"), () => {
      const hidden = document.body.classList.toggle("narrowed");
      toggle.setAttribute("aria-expanded", String(!hidden));
    }, { class: "tool", "aria-expanded": "true" }, icon(ICONS.panel));
    root.append(
      make("header", { class: "bar" }, toggle, make("div", { class: "name" }, this.title, this.subtitle), this.tools, this.search.element),
      this.trouble,
      make("main", { class: "columns" }, this.overview.element, make("div", { class: "reading" }, this.feed, this.empty, this.newest, this.over)),
    );
    document.addEventListener("keydown", (event) => this.key(event));
    host.listen((message) => this.take(message));
  }

  private tell(message: FromPage): void {
    this.host.tell(message);
  }

  private act(action: Action, index: number): void {
    const selection = action === "pin" ? (window.getSelection()?.toString() ?? "") : "";
    this.tell({ kind: "act", action, index, ...(selection === "" ? {} : { selection }) });
  }

  private pointOf({ at, id, name, tokens }: ShownCheckpoint): Point {
    const timelineId = this.facts?.timeline;
    return { end: at, name: `#${exact(id)} ${name}`, ...(tokens > 0 ? { tokens } : {}), ...(timelineId === undefined ? {} : { timelineId }) };
  }

  private take(message: ToPage): void {
    // What was read before the last rewrite is no longer true.
    if ("epoch" in message && message.epoch !== this.facts?.epoch) {
      return;
    }
    switch (message.kind) {
      case "facts":
        this.takeFacts(message.facts);
        break;
      case "messages":
        this.messages.put(message.from, message.to, message.messages);
        this.scroller.draw();
        break;
      case "text":
        this.takeText(message);
        break;
      case "checkpoints":
        this.arriving.push(...message.checkpoints);
        if (!message.more) {
          this.setCheckpoints(this.arriving.splice(0));
        }
        break;
      case "checkpoint":
        this.setCheckpoints([...this.checkpoints.filter(({ uid }) => uid !== message.checkpoint.uid), message.checkpoint]);
        break;
      case "timelines":
        this.overview.setTimelines(message.timelines);
        break;
      case "usage":
        this.overview.setUsage(message.usage);
        break;
      case "files":
      case "fileDiff":
        this.files.take(message);
        break;
      case "go":
        this.hideOver();
        this.scroller.go(message.index);
        if (message.query !== undefined) {
          this.search.mark(message.query);
        }
        break;
      case "hits":
        this.search.take(message.search, message.hits, message.more, message.problem);
        break;
      case "comparison":
        this.showOver(comparisonName(message), comparison(message, this.context, () => this.closeOver()));
        break;
      case "sheet":
        this.showSheet(message.sheet);
        break;
      case "trouble":
        this.takeTrouble(message.text, message.gone === true);
    }
  }

  private takeText({ place, from, text }: Extract<ToPage, { kind: "text" }>): void {
    const key = keyOf(place);
    const message = this.messages.peek(place.index);
    const part = place.part === undefined ? undefined : message?.parts[place.part];
    const shown = place.call === undefined ? (part && "text" in part ? part.text : "") : (message?.calls[place.call]?.given ?? "");
    const before = this.more.get(key) ?? "";
    if (shown.length + before.length === from) {
      this.more.set(key, before + text);
      this.rows.drawAgain();
      this.scroller.draw();
    }
  }

  private takeFacts(facts: Facts): void {
    const before = this.facts;
    this.facts = facts;
    this.lost = false;
    if (before?.epoch !== facts.epoch) {
      this.messages.cut(facts.keep);
      this.arriving.length = 0;
      this.more.clear();
      this.files.forget();
      this.rows.drawAgain();
      this.hideOver();
      if (facts.keep < (before?.messages ?? 0)) {
        this.setCheckpoints(this.checkpoints.filter(({ at }) => at < facts.keep));
      }
    } else {
      this.messages.askAgain();
      if (before.messages !== facts.messages) {
        this.files.forgetDisk();
      }
    }
    const same = before?.epoch === facts.epoch ? before : undefined;
    const keep = same ? Math.min(same.messages, facts.messages) : facts.keep;
    const away = same !== undefined && facts.messages > same.messages && !this.scroller.follows;
    this.newest.hidden = !(away || (!this.newest.hidden && !this.scroller.follows));
    this.title.textContent = facts.title;
    document.title = facts.title;
    this.title.classList.toggle("aside", facts.timeline !== undefined);
    const counts = [counted("messages", facts.messages), ...(facts.timeline === undefined ? [counted("tokens", facts.tokens, short(facts.tokens))] : [say("setAside")]), counted("checkpoints", facts.checkpoints)];
    this.subtitle.textContent = counts.join(" · ");
    this.drawTools(facts);
    this.overview.show(facts);
    this.empty.hidden = facts.messages > 0;
    this.feed.setAttribute("role", facts.messages > 0 ? "feed" : "region"); // a feed has articles
    this.scroller.resize(facts.messages, keep);
    if (before !== undefined && before.epoch !== facts.epoch) {
      this.search.again();
    }
  }

  private drawTools({ timeline, canUndo, canRedo, writable, exported }: Facts): void {
    const steps = [
      button(say("undo"), () => this.tell({ kind: "step", direction: "undo" }), { class: "tool", disabled: !writable || canUndo === 0 }, icon(ICONS.back)),
      button(say("redo"), () => this.tell({ kind: "step", direction: "redo" }), { class: "tool", disabled: !writable || canRedo === 0 }, icon(ICONS.forth)),
    ];
    const aside = (id: string): HTMLElement[] => [
      ...(exported ? [] : [button(say("restore"), () => this.tell({ kind: "restore", timeline: id }), { class: "primary", disabled: !writable })]),
      button(say("compare"), () => this.tell({ kind: "compare", from: { timelineId: id }, to: {} })),
      button(say("toPresent"), () => this.tell({ kind: "log" })),
    ];
    const tools = timeline === undefined ? (exported ? [] : steps) : aside(timeline);
    const at = [...this.tools.children].indexOf(document.activeElement ?? this.tools);
    this.tools.replaceChildren(...tools);
    tools[at]?.focus();
  }

  private takeTrouble(text: string | undefined, lost: boolean): void {
    this.trouble.textContent = text ?? "";
    this.trouble.hidden = text === undefined;
    if (lost) {
      this.lost = true;
      this.messages.cut(0);
      this.more.clear();
      this.files.forget();
      this.setCheckpoints([]);
      this.overview.setTimelines([]);
      this.overview.setUsage([]);
      this.hideOver();
      this.title.textContent = "";
      this.subtitle.textContent = "";
      this.tools.replaceChildren();
      this.feed.setAttribute("role", "region");
      this.scroller.resize(0, 0);
    }
  }

  private setCheckpoints(checkpoints: ShownCheckpoint[]): void {
    this.checkpoints = checkpoints;
    this.rows.setCheckpoints(checkpoints);
    this.overview.setCheckpoints(checkpoints);
    this.scroller.draw();
  }

  private moved(top: number): void {
    this.overview.moved(top);
    if (this.scroller.follows) {
      this.newest.hidden = true;
    }
    if (top !== this.reported && this.facts) {
      this.reported = top;
      this.tell({ kind: "top", index: this.scroller.follows ? this.facts.messages : top });
      const { session, timeline } = this.facts;
      this.host.keep({ ...session, ...(timeline === undefined ? {} : { timeline }), ...(this.scroller.follows ? {} : { index: top }) });
    }
  }

  private highlight(): void {
    highlight(this.scroller.elements, this.search.query);
  }

  private showSheet(given: Sheet): void {
    this.showOver(given.title, sheet(given, () => this.closeOver()));
  }

  private showOver(name: string, content: readonly HTMLElement[]): void {
    this.over.replaceChildren(...content);
    this.over.setAttribute("aria-label", name);
    this.over.hidden = false;
    this.over.scrollTop = 0;
    this.over.focus();
  }

  private closeOver(): void {
    this.hideOver();
    this.feed.focus();
  }

  private hideOver(): void {
    this.over.hidden = true;
    this.over.replaceChildren();
  }

  private key(event: KeyboardEvent): void {
    const target = event.target as HTMLElement;
    if (event.ctrlKey || event.metaKey || event.altKey || this.lost) {
      return;
    }
    if (event.key === "/" && !(target instanceof HTMLInputElement)) {
      event.preventDefault();
      this.search.input.focus();
      return;
    }
    if (event.key === "Escape" && !this.over.hidden) {
      this.closeOver();
      return;
    }
    if (target !== this.feed && !target.matches("article.row")) {
      return;
    }
    const steps: Partial<Record<string, () => void>> = {
      ArrowDown: () => this.focusRow(target === this.feed ? this.scroller.top : this.focused + 1, 1),
      ArrowUp: () => this.focusRow(target === this.feed ? this.scroller.top : this.focused - 1, -1),
      Home: () => this.focusRow(0, 1),
      End: () => this.focusRow((this.facts?.messages ?? 1) - 1, -1),
      PageDown: () => this.overview.step(1),
      PageUp: () => this.overview.step(-1),
      Enter: () => target.querySelector<HTMLButtonElement>(".row-head .more")?.click(),
    };
    const step = this.feed.contains(target) ? steps[event.key] : undefined;
    if (step) {
      event.preventDefault();
      step();
    }
  }

  /** The next row in a direction that has one. */
  private focusRow(index: number, by: number): void {
    const total = this.facts?.messages ?? 0;
    for (let at = index; at >= 0 && at < total; at += by) {
      const message = this.messages.peek(at);
      if (!message || !this.rows.isMerged(message)) {
        this.focused = at;
        if (!this.inSight(at)) {
          this.scroller.go(at);
        }
        this.scroller.element(at)?.focus({ preventScroll: true });
        return;
      }
    }
  }

  private inSight(index: number): boolean {
    const box = this.scroller.element(index)?.getBoundingClientRect();
    const view = this.feed.getBoundingClientRect();
    return box !== undefined && box.top >= view.top && Math.min(box.bottom, box.top + 80) <= view.bottom;
  }
}

function keyOf({ index, part, call }: TextPlace): string {
  return `${index}/${part ?? ""}/${call ?? ""}`;
}
