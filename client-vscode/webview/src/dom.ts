/** Elements. Text becomes text nodes, never markup. */

type Child = Node | string | undefined | false;

interface Attributes {
  readonly class?: string;
  readonly [name: string]: string | number | boolean | undefined;
}

/** An element; attributes that are undefined or false are left out. */
export function make<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: readonly Child[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  set(element, attributes);
  append(element, children);
  return element;
}

export function draw<K extends keyof SVGElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: readonly Child[]): SVGElementTagNameMap[K] {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  set(element, attributes);
  append(element, children);
  return element;
}

export function button(label: string, run: () => void, attributes: Attributes = {}, ...children: readonly Child[]): HTMLButtonElement {
  const element = make("button", { type: "button", ...(children.length > 0 ? { "aria-label": label, title: label } : {}), ...attributes }, ...(children.length > 0 ? children : [label]));
  element.addEventListener("click", (event) => {
    event.stopPropagation();
    run();
  });
  return element;
}

/** Of 16 by 16, drawn with lines. */
export function icon(path: string): SVGElement {
  return draw("svg", { viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true", class: "icon" }, draw("path", { d: path }));
}

export const ICONS = {
  back: "M6 3 2 7l4 4M2 7h7a4 4 0 0 1 4 4v2",
  forth: "m10 3 4 4-4 4M14 7H7a4 4 0 0 0-4 4v2",
  edit: "m10.5 2.5 3 3-7.5 7.5-4 1 1-4z",
  fork: "M4 5v6M4 5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3Zm0 6a1.5 1.5 0 1 0 0 3 1.5 1.5 0 0 0 0-3Zm8-6a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3Zm0 0c0 4-8 2-8 6",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  more: "M3 8h.01M8 8h.01M13 8h.01",
  up: "m3 10 5-5 5 5",
  down: "m3 6 5 5 5-5",
  close: "m4 4 8 8M12 4l-8 8",
  panel: "M2 3h12v10H2zM6 3v10",
} as const;

function set(element: Element, attributes: Attributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
}

function append(element: Element, children: readonly Child[]): void {
  for (const child of children) {
    if (child !== undefined && child !== false) {
      element.append(child);
    }
  }
}
