/** A menu at a button: arrow keys, Escape, first letters are left to the workbench. */

import { make } from "./dom.js";

export interface Entry {
  readonly label: string;
  readonly run: () => void;
}

let open: (() => void) | undefined;

export function showMenu(at: HTMLElement, label: string, entries: readonly Entry[]): void {
  open?.();
  const menu = make("div", { class: "menu", role: "menu", "aria-label": label });
  const items = entries.map(({ label: text, run }) => {
    const item = make("button", { type: "button", role: "menuitem", tabindex: -1 }, text);
    item.addEventListener("click", () => {
      close();
      run();
    });
    return item;
  });
  menu.append(...items);
  document.body.append(menu);
  const { left, bottom, top, right } = at.getBoundingClientRect();
  const { offsetHeight: height, offsetWidth: width } = menu;
  menu.style.left = `${Math.max(4, Math.min(right - width, window.innerWidth - width - 4), Math.min(left, right - width))}px`;
  menu.style.top = `${bottom + height + 4 > window.innerHeight ? Math.max(4, top - height - 2) : bottom + 2}px`;
  const close = (): void => {
    open = undefined;
    document.removeEventListener("pointerdown", outside, true);
    menu.remove();
    at.setAttribute("aria-expanded", "false");
    at.focus({ preventScroll: true });
  };
  const outside = (event: Event): void => {
    if (!menu.contains(event.target as Node)) {
      close();
    }
  };
  menu.addEventListener("keydown", (event) => {
    const now = items.indexOf(document.activeElement as HTMLButtonElement);
    const to = { ArrowDown: now + 1, ArrowUp: now - 1, Home: 0, End: items.length - 1 }[event.key];
    // Keys that are none of the menu's are the workbench's.
    if (to !== undefined) {
      event.stopPropagation();
      event.preventDefault();
      items[(to + items.length) % items.length]?.focus();
    } else if (event.key === "Escape" || event.key === "Tab") {
      event.stopPropagation();
      event.preventDefault();
      close();
    }
  });
  document.addEventListener("pointerdown", outside, true);
  at.setAttribute("aria-expanded", "true");
  open = close;
  items[0]?.focus();
}
