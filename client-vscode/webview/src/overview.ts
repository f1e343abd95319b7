/** The conversation at a glance: its tokens as a curve, its timelines as branches on the same axis, and a slider through its checkpoints. */

import type { Facts, ShownCheckpoint, ShownTimeline } from "../../src/features/page/wire.js";
import { button, draw, icon, ICONS, make } from "./dom.js";
import { curvePoints } from "./curve.js";
import { lastAt } from "./rows.js";
import { counted, exact, headed, joined, say, short, timeOf } from "./words.js";

const EDGE = 8;
const LANE = 30;
const CURVE = 84;
/** Pixels between two marks of checkpoints. */
const TICKS = 4;

export interface OverviewActions {
  readonly go: (index: number) => void;
  readonly showLog: (timeline: string | undefined) => void;
  /** To the present where there is no second. */
  readonly compare: (from: ShownCheckpoint, to: ShownCheckpoint | undefined) => void;
  /** With what, is asked; undefined: nobody is there to ask. */
  readonly compareWith: ((from: ShownCheckpoint) => void) | undefined;
}

export class Overview {
  readonly element: HTMLElement;
  private readonly curve = draw("svg", { class: "curve", role: "img" });
  private readonly lanes = make("div", { class: "lanes", role: "group" });
  private readonly slider = make("input", { type: "range", min: 0, max: 0, step: 1 });
  private readonly here = make("p", { class: "here", "aria-live": "off" });
  private readonly comparing = make("div", { class: "comparing" });
  private checkpoints: readonly ShownCheckpoint[] = [];
  private timelines: readonly ShownTimeline[] = [];
  private usage: readonly (readonly [number, number])[] = [];
  private facts: Facts | undefined;
  private top = 0;
  private base: ShownCheckpoint | undefined;

  constructor(private readonly actions: OverviewActions) {
    const before = button(say("olderCheckpoint"), () => this.step(-1), { class: "tool" }, icon(ICONS.up));
    const after = button(say("newerCheckpoint"), () => this.step(1), { class: "tool" }, icon(ICONS.down));
    this.slider.setAttribute("aria-label", say("conversation"));
    this.slider.addEventListener("input", () => this.slid(Number(this.slider.value)));
    this.slider.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowDown: -1, PageUp: -1, ArrowRight: 1, ArrowUp: 1, PageDown: 1 }[event.key];
      if (by !== undefined) {
        event.preventDefault();
        this.step(by);
      }
    });
    this.element = make("aside", { class: "overview", "aria-label": say("overview") },
      this.curve, this.slider, make("div", { class: "slide" }, before, this.here, after), this.comparing, this.lanes);
    this.curve.addEventListener("pointerdown", (event) => this.follow(event));
    this.curve.addEventListener("pointermove", (event) => event.buttons === 1 && this.follow(event));
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  show(facts: Facts): void {
    this.facts = facts;
    this.draw();
  }

  setCheckpoints(checkpoints: readonly ShownCheckpoint[]): void {
    this.checkpoints = checkpoints;
    this.base = this.base && checkpoints.find(({ uid }) => uid === this.base?.uid);
    this.draw();
  }

  /** One that holds nothing which the present has not is no branch. */
  setTimelines(timelines: readonly ShownTimeline[]): void {
    this.timelines = timelines.filter(({ id, messages, common }) => messages !== common || id === this.facts?.timeline);
    this.draw();
  }

  setUsage(usage: readonly (readonly [number, number])[]): void {
    this.usage = usage;
    this.draw();
  }

  /** The message at the top of the conversation. */
  moved(top: number): void {
    if (top !== this.top) {
      this.top = top;
      this.drawPlace();
    }
  }

  /** To the checkpoint before or after the one in sight. */
  step(by: number): void {
    const now = this.current();
    const target = by < 0 && now >= 0 && this.checkpoints[now]?.at !== this.top ? now : now + by;
    const checkpoint = this.checkpoints[target];
    this.actions.go(checkpoint ? checkpoint.at : target < 0 ? 0 : (this.facts?.messages ?? 0));
  }

  /** To the checkpoint that is nearest to a message; behind the last of them to the end. */
  private slid(index: number): void {
    const before = lastAt(this.checkpoints, index);
    const near = [before, before + 1].flatMap((one) => this.checkpoints[one]?.at ?? []).concat(this.facts?.messages ?? 0);
    this.actions.go(near.reduce((best, one) => (Math.abs(one - index) < Math.abs(best - index) ? one : best)));
  }

  private current(): number {
    return lastAt(this.checkpoints, this.top);
  }

  private get width(): number {
    return Math.max(60, this.curve.clientWidth);
  }

  private get most(): number {
    return Math.max(1, this.facts?.messages ?? 0, ...this.timelines.map(({ messages }) => messages));
  }

  private x(at: number): number {
    return EDGE + ((this.width - 2 * EDGE) * at) / this.most;
  }

  private draw(): void {
    const { facts } = this;
    if (!facts) {
      return;
    }
    this.slider.max = String(this.most);
    const points = curvePoints(this.usage, this.checkpoints, facts);
    const most = points.reduce((sum, [, tokens]) => Math.max(sum, tokens), 0);
    const y = (tokens: number): number => CURVE - 16 - ((CURVE - 30) * tokens) / Math.max(1, most);
    const columns = new Map<number, number>();
    for (const [at, tokens] of points) {
      const column = Math.round(this.x(at) * 2) / 2;
      columns.set(column, Math.max(tokens, columns.get(column) ?? 0));
    }
    const path = [...columns].map(([x, tokens], index) => `${index === 0 ? "M" : "L"}${x} ${y(tokens).toFixed(1)}`).join("");
    const xs = [...columns.keys()];
    this.curve.setAttribute("aria-label", headed(say("curve"), short(most)));
    this.curve.setAttribute("height", String(CURVE));
    this.curve.replaceChildren(
      ...(path === "" ? [] : [
        draw("path", { class: "area", d: `${path}L${xs.at(-1) ?? 0} ${CURVE - 16}L${xs[0] ?? 0} ${CURVE - 16}Z` }),
        draw("path", { class: "line", d: path }),
      ]),
      draw("path", { class: "axis", d: `M${EDGE} ${CURVE - 16}H${this.width - EDGE}` }),
      draw("path", { class: "ticks", d: this.ticks() }),
      draw("text", { x: this.width - EDGE, y: 11, "text-anchor": "end" }, most > 0 ? counted("tokens", most, short(most)) : ""),
      draw("text", { x: EDGE, y: CURVE - 2 }, "0"),
      draw("text", { x: this.width - EDGE, y: CURVE - 2, "text-anchor": "end" }, exact(this.most)),
      draw("path", { class: "base" }),
      draw("path", { class: "place" }),
    );
    this.drawLanes(facts);
    this.drawPlace();
  }

  /** Where there are many checkpoints, not so many marks that they would run together. */
  private ticks(): string {
    let last = -TICKS;
    let path = "";
    for (const { at } of this.checkpoints) {
      const x = Math.round(this.x(at));
      if (x - last >= TICKS) {
        path += `M${x} ${CURVE - 19}v6`;
        last = x;
      }
    }
    return path;
  }

  private drawLanes(facts: Facts): void {
    this.lanes.setAttribute("aria-label", say("setAside"));
    this.lanes.hidden = this.timelines.length === 0;
    const lane = (id: string | undefined, name: string, more: string): HTMLButtonElement => {
      const shown = facts.timeline === id;
      return button(`${name} ${more}`.trim(), () => this.actions.showLog(id), { class: "lane", "aria-pressed": String(shown) }, make("span", { class: "lane-name" }, name), " ", make("small", {}, more));
    };
    const height = LANE * (this.timelines.length + 1);
    const middle = (row: number): number => row * LANE + LANE / 2;
    const graph = draw("svg", { class: "branches", height, "aria-hidden": "true" });
    const scale = (at: number): number => 6 + (40 * at) / this.most;
    const present = facts.timeline === undefined ? facts.messages : this.most;
    this.timelines.forEach(({ common, messages, id }, row) => {
      const [from, to] = [scale(common ?? 0), scale(messages)];
      const y = middle(row + 1);
      graph.append(draw("path", { class: facts.timeline === id ? "branch shown" : "branch", d: `M${from} ${middle(0)}V${y - 6}Q${from} ${y} ${from + 6} ${y}H${Math.max(from + 8, to)}` }),
        draw("circle", { class: "end", cx: Math.max(from + 8, to), cy: y, r: 3 }));
    });
    graph.append(draw("path", { class: "trunk", d: `M${scale(0)} ${middle(0)}H${scale(present)}` }), draw("circle", { class: "end live", cx: scale(present), cy: middle(0), r: 4 }));
    this.lanes.replaceChildren(graph, make("div", { class: "lane-list" },
      lane(undefined, say("present"), facts.timeline === undefined ? counted("messages", facts.messages) : ""),
      ...this.timelines.map(({ id, name, messages, common = 0 }) => lane(id, name, joined(counted("messages", messages - common), say("setAside"))))));
  }

  private drawPlace(): void {
    const { facts } = this;
    if (!facts) {
      return;
    }
    const checkpoint = this.checkpoints[this.current()];
    this.slider.value = String(this.top);
    const text = checkpoint ? headed(say("checkpoint", exact(checkpoint.id)), checkpoint.name) : this.checkpoints.length === 0 ? say("noCheckpoints") : say("beginning");
    this.slider.setAttribute("aria-valuetext", text);
    this.here.replaceChildren(make("strong", {}, text), ...(checkpoint ? [make("small", {}, [checkpoint.tokens > 0 ? counted("tokens", checkpoint.tokens, short(checkpoint.tokens)) : "", timeOf(checkpoint.createdAt)].filter(Boolean).join(" · "))] : []));
    const x = this.x(this.top);
    this.curve.querySelector(".place")?.setAttribute("d", `M${x} 14V${CURVE - 12}`);
    const base = this.base && this.x(this.base.at);
    this.curve.querySelector(".base")?.setAttribute("d", base === undefined ? "" : `M${base} 14V${CURVE - 12}`);
    this.comparing.replaceChildren(...this.comparison(checkpoint));
  }

  private comparison(checkpoint: ShownCheckpoint | undefined): HTMLElement[] {
    if (!checkpoint) {
      return [];
    }
    const { base } = this;
    const { compare, compareWith } = this.actions;
    const from = button(say("compareFrom"), () => {
      this.base = checkpoint;
      this.drawPlace();
    });
    const present = button(say("compare"), () => compare(checkpoint, undefined));
    const others = compareWith ? [button(say("compareWith"), () => compareWith(checkpoint))] : [];
    const pair = base && base.uid !== checkpoint.uid ? [button(say("compareTo", `#${exact(base.id)} ${cut(base.name)}`), () => compare(base, checkpoint))] : [];
    return [...pair, from, present, ...others];
  }

  private follow(event: PointerEvent): void {
    const part = (event.clientX - this.curve.getBoundingClientRect().left - EDGE) / (this.width - 2 * EDGE);
    this.actions.go(Math.round(Math.max(0, Math.min(1, part)) * this.most));
  }
}

/** What of a name stands on a button. */
function cut(name: string): string {
  return name.length > 24 ? `${name.slice(0, 24)}…` : name;
}
