/** The page: what the extension host tells is shown, what a person does is told. */

import { actionsAt } from "../../src/features/page/wire.js";
import type { Action, Facts, FromPage, Kept, ShownCall, ShownCheckpoint, ShownMessage, ToPage } from "../../src/features/page/wire.js";
import { button, icon, ICONS, make } from "./dom.js";
import { showMenu, type Entry } from "./menu.js";
import { body, roleName, type MessageContext } from "./message.js";
import { Overview } from "./overview.js";
import { Scroller } from "./scroller.js";
import { highlight, SearchBox } from "./search.js";
import { Messages } from "./store.js";
import { counted, exact, say, short, timeOf } from "./words.js";

interface Host {
  postMessage(message: FromPage): void;
  setState(state: Kept): void;
}
declare function acquireVsCodeApi(): Host;

/** Messages through which the call that a result belongs to is looked for. */
const FAR = 200;

export class Page {
  private readonly host = acquireVsCodeApi();
  private readonly messages = new Messages((from, to) => this.tell({ kind: "read", epoch: this.facts?.epoch ?? 0, from, to }));
  private facts: Facts | undefined;
  private checkpoints: ShownCheckpoint[] = [];
  private marks = new Map<number, ShownCheckpoint[]>();
  /** Rows are drawn again when it changes. */
  private drawn = 0;
  private lost = false;
  private focused = 0;
  private reported = -1;

  private readonly title = make("h1", {});
  private readonly subtitle = make("p", { class: "facts" });
  private readonly tools = make("div", { class: "tools" });
  private readonly trouble = make("div", { class: "trouble", role: "status" });
  private readonly feed = make("section", { class: "feed", role: "feed", "aria-label": say("conversation"), tabindex: 0 });
  private readonly comparison = make("section", { class: "comparison", hidden: true, tabindex: -1 });
  private readonly newest = button(say("newMessages"), () => this.scroller.go(Infinity), { class: "newest", hidden: true });
  private readonly empty = make("p", { class: "empty", hidden: true }, say("empty"));
  private readonly context: MessageContext;
  private readonly scroller: Scroller;
  private readonly overview: Overview;
  private readonly search: SearchBox;

  constructor(root: HTMLElement) {
    this.context = {
      answer: (message, call) => this.answerOf(message, call),
      asked: (message) => this.callOf(message)?.call,
      openDocument: (index) => this.act("document", index),
      unfolded: new Set(),
    };
    this.scroller = new Scroller(this.feed, {
      draw: (index) => this.row(index),
      version: (index) => this.version(index),
      settled: (index) => this.messages.peek(index) !== undefined,
      onDraw: () => this.highlight(),
      onMove: (top) => this.moved(top),
    });
    this.overview = new Overview({
      go: (index) => this.scroller.go(index),
      showLog: (timeline) => this.tell({ kind: "log", ...(timeline === undefined ? {} : { timeline }) }),
      compare: (to) => this.compare(to),
    });
    this.search = new SearchBox({
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
    const toggle = button(say("overview"), () => {
      const hidden = document.body.classList.toggle("narrowed");
      toggle.setAttribute("aria-expanded", String(!hidden));
    }, { class: "tool", "aria-expanded": "true" }, icon(ICONS.panel));
    root.append(
      make("header", { class: "bar" }, toggle, make("div", { class: "name" }, this.title, this.subtitle), this.tools, this.search.element),
      this.trouble,
      make("main", { class: "columns" }, this.overview.element, make("div", { class: "reading" }, this.feed, this.empty, this.newest, this.comparison)),
    );
    document.addEventListener("keydown", (event) => this.key(event));
    window.addEventListener("message", (event: MessageEvent<ToPage>) => this.take(event.data));
    this.tell({ kind: "ready" });
    this.takeFirst();
  }

  /** What the page came with. It stays nowhere else: what is redacted shall be gone. */
  private takeFirst(): void {
    const first = document.getElementById("first");
    first?.remove();
    for (const message of JSON.parse(first?.textContent ?? "[]") as ToPage[]) {
      this.take(message);
    }
  }

  private tell(message: FromPage): void {
    this.host.postMessage(message);
  }

  private act(action: Action, index: number): void {
    const selection = action === "pin" ? (window.getSelection()?.toString() ?? "") : "";
    this.tell({ kind: "act", action, index, ...(selection === "" ? {} : { selection }) });
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
      case "go":
        this.scroller.go(message.index);
        if (message.query !== undefined) {
          this.search.mark(message.query);
        }
        break;
      case "hits":
        this.search.take(message.search, message.hits, message.more, message.problem);
        break;
      case "comparison":
        this.showComparison(message);
        break;
      case "trouble":
        this.takeTrouble(message.text, message.gone === true);
    }
  }

  /** Pages of checkpoints, until all have come. */
  private readonly arriving: ShownCheckpoint[] = [];

  private takeFacts(facts: Facts): void {
    const before = this.facts;
    this.facts = facts;
    this.lost = false;
    if (before?.epoch !== facts.epoch) {
      this.messages.cut(facts.keep);
      this.arriving.length = 0;
      this.drawn += 1;
      this.hideComparison();
      if (facts.keep < (before?.messages ?? 0)) {
        this.setCheckpoints(this.checkpoints.filter(({ at }) => at < facts.keep));
      }
    } else {
      this.messages.askAgain();
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

  private drawTools(facts: Facts): void {
    const { timeline, canUndo, canRedo, writable } = facts;
    const tools = timeline === undefined
      ? [
          button(say("undo"), () => this.tell({ kind: "step", direction: "undo" }), { class: "tool", disabled: !writable || canUndo === 0 }, icon(ICONS.back)),
          button(say("redo"), () => this.tell({ kind: "step", direction: "redo" }), { class: "tool", disabled: !writable || canRedo === 0 }, icon(ICONS.forth)),
        ]
      : [
          button(say("restore"), () => this.tell({ kind: "restore", timeline }), { class: "primary", disabled: !writable }),
          button(say("toPresent"), () => this.tell({ kind: "log" })),
        ];
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
      this.checkpoints = [];
      this.marks = new Map();
      this.overview.setCheckpoints([]);
      this.overview.setTimelines([]);
      this.overview.setUsage([]);
      this.hideComparison();
      this.title.textContent = "";
      this.subtitle.textContent = "";
      this.tools.replaceChildren();
      this.feed.setAttribute("role", "region");
      this.scroller.resize(0, 0);
    }
  }

  private setCheckpoints(checkpoints: ShownCheckpoint[]): void {
    this.checkpoints = checkpoints;
    this.marks = Map.groupBy(checkpoints, ({ at }) => at);
    this.drawn += 1;
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
      this.keep(top);
    }
  }

  private keep(top: number): void {
    if (this.facts) {
      const { session, timeline } = this.facts;
      this.host.setState({ ...session, ...(timeline === undefined ? {} : { timeline }), ...(this.scroller.follows ? {} : { index: top }) });
    }
  }

  private highlight(): void {
    highlight(this.scroller.elements, this.search.query);
  }

  /** Where a tool's message is shown: with its call, where that is known. */
  private callOf(message: ShownMessage): { readonly call: ShownCall; readonly from: number } | undefined {
    if (message.role !== "tool" || message.answers === undefined) {
      return undefined;
    }
    for (let index = message.index - 1; index >= 0 && index > message.index - FAR; index -= 1) {
      const before = this.messages.peek(index);
      if (before === undefined) {
        return undefined;
      }
      const call = before?.calls.find(({ id }) => id === message.answers);
      if (call) {
        return { call, from: index };
      }
      if (before && before.role !== "tool") {
        return undefined;
      }
    }
    return undefined;
  }

  private answerOf(message: ShownMessage, call: ShownCall): ShownMessage | null | undefined {
    const total = this.facts?.messages ?? 0;
    for (let index = message.index + 1; index < total && index < message.index + FAR; index += 1) {
      const after = this.messages.get(index, total);
      if (after === undefined) {
        return undefined;
      }
      if (after?.role === "tool" && after.answers === call.id && call.id !== "") {
        return after;
      }
      if (after && after.role !== "tool") {
        return null;
      }
    }
    return null;
  }

  /** Whether a message is shown with its call, and has no row of its own; one at a checkpoint has, for the checkpoint. */
  private isMerged(message: ShownMessage): boolean {
    return !this.marks.has(message.index) && this.callOf(message) !== undefined;
  }

  private version(index: number): string {
    const message = this.messages.peek(index);
    if (!message) {
      return message === null ? `${this.drawn}/null` : `${this.drawn}/waits`;
    }
    const answers = message.calls.map((call) => {
      const answer = this.answerOf(message, call);
      return answer === undefined ? "?" : answer === null ? "-" : answer.index;
    });
    return `${this.drawn}/${this.isMerged(message) ? "merged" : ""}/${this.callOf(message)?.from ?? ""}/${answers.join()}`;
  }

  private row(index: number): HTMLElement | undefined {
    const total = this.facts?.messages ?? 0;
    const message = this.messages.get(index, total);
    if (message && this.isMerged(message)) {
      return undefined;
    }
    const element = make("article", { class: `row ${message?.role ?? ""}`, tabindex: -1, "aria-posinset": index + 1, "aria-setsize": total, "data-index": index });
    element.append(...(this.marks.get(index) ?? []).map((checkpoint) => this.marker(checkpoint)));
    if (message === undefined) {
      element.setAttribute("aria-busy", "true");
      element.setAttribute("aria-label", say("loading"));
      element.append(make("div", { class: "waits" }, say("loading")));
      return element;
    }
    const role = message ? roleName(message.role) : "";
    element.setAttribute("aria-label", say("message", index, role));
    element.append(make("div", { class: "row-head" },
      make("span", { class: "role" }, role, ...(message?.name === undefined || message.role === "tool" ? [] : [make("small", {}, message.name)])),
      make("span", { class: "number" }, exact(index)),
      message !== null && this.actions(message)));
    element.append(message === null ? make("p", { class: "quiet" }, say("unreadable")) : body(message, this.context));
    element.addEventListener("focusin", () => {
      this.focused = index;
    });
    return element;
  }

  private marker(checkpoint: ShownCheckpoint): HTMLElement {
    const { uid, id, name, createdAt, tokens, errors } = checkpoint;
    const live = this.facts?.timeline === undefined && this.facts?.writable === true;
    const label = say("checkpoint", exact(id));
    const more = button(`${label}: ${say("actions")}`, () => {
      showMenu(more, label, [
        { label: say("revert"), run: () => this.tell({ kind: "checkpoint", action: "revert", uid }) },
        { label: say("fork"), run: () => this.tell({ kind: "checkpoint", action: "fork", uid }) },
      ]);
    }, { class: "tool", "aria-haspopup": "menu", "aria-expanded": "false" }, icon(ICONS.more));
    return make("div", { class: errors === undefined ? "marker" : "marker failed", "data-checkpoint": id },
      make("span", { class: "marker-id" }, `#${exact(id)}`),
      make("span", { class: "marker-name", dir: "auto" }, name),
      errors !== undefined && make("span", { class: "badge" }, `${exact(errors)} ${say("failed")}`),
      make("span", { class: "marker-facts" }, [timeOf(createdAt), tokens > 0 ? say("upToHere", counted("tokens", tokens, short(tokens))) : ""].filter(Boolean).join(" · ")),
      live && more);
  }

  private actions(message: ShownMessage): HTMLElement {
    const { index } = message;
    const live = this.facts?.timeline === undefined && this.facts?.writable === true;
    const tool = (text: "revert" | "again" | "fork" | "markdown", path: string): HTMLButtonElement => button(say(text), () => this.act(text, index), { class: "tool", tabindex: -1 }, icon(path));
    const more = button(say("actions"), () => showMenu(more, say("actions"), this.entries(message, live)), { class: "tool more", "aria-haspopup": "menu", "aria-expanded": "false" }, icon(ICONS.more));
    return make("span", { class: "actions" }, live && tool("revert", ICONS.back), live && message.role === "user" && tool("again", ICONS.edit), tool("markdown", ICONS.copy), more);
  }

  private entries({ index, role }: ShownMessage, live: boolean): Entry[] {
    return actionsAt(role, { live, forkable: live }).map((action) => ({ label: say(action), run: () => this.act(action, index) }));
  }

  private compare(to: ShownCheckpoint | undefined): void {
    const from = this.overview.compared;
    if (from) {
      this.comparing = [`#${exact(from.id)} ${from.name}`, to ? `#${exact(to.id)} ${to.name}` : say("present")];
      this.tell({ kind: "comparePoints", from: { checkpointUid: from.uid }, to: to ? { checkpointUid: to.uid } : {} });
    }
  }

  private comparing: readonly [string, string] = ["", ""];

  private showComparison({ common, removed, added, removedCount, addedCount, tokens }: Extract<ToPage, { kind: "comparison" }>): void {
    const [from, to] = this.comparing;
    // Both sides are whole messages: their calls are shown with the answers among them.
    const side = (name: string, list: readonly ShownMessage[], count: number, mark: string): HTMLElement => {
      const context: MessageContext = {
        ...this.context,
        answer: (message, call) => list.find((other) => other.index > message.index && other.answers === call.id && call.id !== "") ?? null,
        asked: (message) => list.flatMap(({ calls }) => calls).find(({ id }) => id === message.answers),
        unfolded: new Set(),
      };
      const merged = new Set(list.flatMap((message) => message.calls.map((call) => context.answer(message, call)?.index)));
      const rows = list.filter(({ index }) => !merged.has(index)).map((message) => make("article", { class: `row ${message.role}` },
        make("div", { class: "row-head" }, make("span", { class: "role" }, roleName(message.role)), make("span", { class: "number" }, exact(message.index))),
        body(message, context)));
      return make("section", { class: `side ${mark}`, "aria-label": say("onlyIn", name, counted("messages", count)) }, make("h3", {}, say("onlyIn", name, counted("messages", count))), ...rows,
        count > list.length && make("p", { class: "quiet" }, say("andMore", count - list.length)));
    };
    const heading = make("h2", {}, say("comparison", from, to));
    this.comparison.replaceChildren(
      make("header", {}, heading, button(say("close"), () => this.hideComparison(), { class: "tool" }, icon(ICONS.close))),
      make("p", { class: "facts" }, `${say("common", counted("messages", common))} ${say("tokenChange", exact(tokens[0]), exact(tokens[1]))}`),
      make("div", { class: "sides" }, side(from, removed, removedCount, "removed"), side(to, added, addedCount, "added")));
    this.comparison.setAttribute("aria-label", say("comparison", from, to));
    this.comparison.hidden = false;
    this.comparison.focus();
  }

  private hideComparison(): void {
    this.comparison.hidden = true;
    this.comparison.replaceChildren();
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
    if (event.key === "Escape" && !this.comparison.hidden) {
      this.hideComparison();
      this.feed.focus();
      return;
    }
    if (target !== this.feed && !(target instanceof HTMLElement && target.matches("article.row"))) {
      return;
    }
    const inFeed = this.feed.contains(target);
    const steps: Partial<Record<string, () => void>> = {
      ArrowDown: () => this.focusRow(target === this.feed ? this.scroller.top : this.focused + 1, 1),
      ArrowUp: () => this.focusRow(target === this.feed ? this.scroller.top : this.focused - 1, -1),
      Home: () => this.focusRow(0, 1),
      End: () => this.focusRow((this.facts?.messages ?? 1) - 1, -1),
      PageDown: () => this.overview.step(1),
      PageUp: () => this.overview.step(-1),
      Enter: () => target.querySelector<HTMLButtonElement>(".more")?.click(),
    };
    const step = inFeed ? steps[event.key] : undefined;
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
      if (!message || !this.isMerged(message)) {
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

const root = document.getElementById("page");
if (root) {
  new Page(root);
}
