/** A list of which only the rows in sight exist. A row at a fixed place in sight stays there, whatever is measured above it. */

import { Heights } from "./heights.js";

/** Pixels that are drawn beyond what is in sight. */
const BEYOND = 600;
/** Browsers do not lay out what is taller; longer lists are scrolled by larger steps. */
const TALLEST = 15_000_000;
const ESTIMATE = 110;

export interface Rows {
  /** A row; undefined: it has no height, since it is shown in another one. */
  readonly draw: (index: number) => HTMLElement | undefined;
  /** What it is drawn of: a row is drawn again when that changes. */
  readonly version: (index: number) => string;
  /** Whether its height is worth keeping. */
  readonly settled: (index: number) => boolean;
  /** Some rows are others now. */
  readonly onDraw: () => void;
  readonly onMove: (top: number) => void;
}

interface Mounted {
  readonly element: HTMLElement;
  readonly version: string;
}

export class Scroller {
  readonly heights = new Heights(0, ESTIMATE);
  private readonly mounted = new Map<number, Mounted>();
  private readonly canvas = document.createElement("div");
  private readonly observer = new ResizeObserver((entries) => this.measured(entries));
  /** The row at the top of what is in sight, and how much of it is above. */
  private anchor = { index: 0, within: 0 };
  private atEnd = false;
  private expected = -1;
  private fresh = false;
  private drawing = false;

  constructor(
    readonly root: HTMLElement,
    private readonly rows: Rows,
  ) {
    this.canvas.className = "canvas";
    root.append(this.canvas);
    root.addEventListener("scroll", () => this.scrolled(), { passive: true });
    new ResizeObserver(() => this.draw()).observe(root);
  }

  get top(): number {
    return this.anchor.index;
  }

  get follows(): boolean {
    return this.atEnd;
  }

  /** The elements that exist, in their order. */
  get elements(): HTMLElement[] {
    return [...this.mounted.entries()].sort(([one], [other]) => one - other).map(([, { element }]) => element);
  }

  element(index: number): HTMLElement | undefined {
    return this.mounted.get(index)?.element;
  }

  resize(count: number, keep: number): void {
    this.heights.resize(count, keep);
    for (const [index, { element }] of this.mounted) {
      if (index >= keep) {
        this.unmount(index, element);
      }
    }
    if (this.anchor.index >= count) {
      this.anchor = { index: Math.max(0, count - 1), within: 0 };
    }
    this.draw();
  }

  /** Brings a row to the top; beyond the last one: the end. */
  go(index: number): void {
    this.atEnd = index >= this.heights.count;
    this.anchor = { index: Math.max(0, Math.min(index, this.heights.count - 1)), within: 0 };
    this.draw();
  }

  by(pixels: number): void {
    this.root.scrollTop += pixels;
  }

  /** Draws what is in sight, until measuring it changes nothing any more. */
  draw(): void {
    if (this.drawing) {
      return;
    }
    this.drawing = true;
    try {
      for (let turn = 0; turn < 6 && this.pass(); turn += 1);
    } finally {
      this.drawing = false;
    }
    if (this.fresh) {
      this.fresh = false;
      this.rows.onDraw();
    }
    this.rows.onMove(this.anchor.index);
  }

  /** Whether something turned out to have another height. */
  private pass(): boolean {
    const { heights, root } = this;
    const view = root.clientHeight;
    const total = heights.total;
    const shown = Math.min(total, TALLEST);
    const most = Math.max(0, total - view);
    const top = this.atEnd ? most : Math.min(most, heights.offset(this.anchor.index) + this.anchor.within);
    const scale = total > TALLEST ? most / Math.max(1, shown - view) : 1;
    this.canvas.style.height = `${shown}px`;
    const place = top / scale;
    if (Math.abs(root.scrollTop - place) > 0.5) {
      root.scrollTop = place;
    }
    this.expected = root.scrollTop;
    const [first, last] = [heights.at(top - BEYOND), heights.at(top + view + BEYOND)];
    const needed = new Set<number>();
    let changed = false;
    for (let index = first; index <= last && index < heights.count; index += 1) {
      needed.add(index);
      changed = this.mount(index) || changed;
    }
    for (const [index, { element }] of this.mounted) {
      if (!needed.has(index) && !element.contains(document.activeElement)) {
        this.unmount(index, element);
      }
    }
    for (const [index, { element }] of this.mounted) {
      if (this.rows.settled(index)) {
        changed = heights.set(index, element.offsetHeight) || changed;
      }
    }
    const shift = root.scrollTop - top;
    for (const [index, { element }] of this.mounted) {
      element.style.transform = `translateY(${heights.offset(index) + shift}px)`;
    }
    return changed;
  }

  private mount(index: number): boolean {
    const version = this.rows.version(index);
    const before = this.mounted.get(index);
    if (before?.version === version) {
      return false;
    }
    const focused = before?.element.contains(document.activeElement) === true;
    const element = this.rows.draw(index);
    if (before) {
      this.unmount(index, before.element);
    }
    if (!element) {
      return this.heights.set(index, 0);
    }
    this.mounted.set(index, { element, version });
    this.fresh = true;
    // In their order, for who goes through them by the keyboard or hears them read.
    const after = [...this.mounted.keys()].filter((other) => other > index);
    const next = after.length > 0 ? this.mounted.get(Math.min(...after))?.element : undefined;
    this.canvas.insertBefore(element, next ?? null);
    this.observer.observe(element);
    if (focused) {
      element.focus({ preventScroll: true });
    }
    return false;
  }

  private unmount(index: number, element: HTMLElement): void {
    this.observer.unobserve(element);
    element.remove();
    this.mounted.delete(index);
  }

  private measured(entries: readonly ResizeObserverEntry[]): void {
    const of = new Map([...this.mounted].map(([index, { element }]) => [element as Element, index]));
    const changed = entries.some(({ target }) => {
      const index = of.get(target);
      return index !== undefined && this.rows.settled(index) && Math.abs(this.heights.height(index) - (target as HTMLElement).offsetHeight) > 0.5;
    });
    if (changed) {
      this.draw();
    }
  }

  private scrolled(): void {
    const { heights, root } = this;
    if (this.drawing || Math.abs(root.scrollTop - this.expected) < 1) {
      return;
    }
    const view = root.clientHeight;
    const most = Math.max(0, heights.total - view);
    const shown = Math.min(heights.total, TALLEST);
    const scale = heights.total > TALLEST ? most / Math.max(1, shown - view) : 1;
    const top = root.scrollTop * scale;
    const index = heights.at(top);
    this.anchor = { index, within: top - heights.offset(index) };
    this.atEnd = top >= most - 4;
    this.draw();
  }
}
