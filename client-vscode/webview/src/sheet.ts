/** Something to read above the conversation: a compaction's report, a request of an agent. */

import type { Sheet, SheetBlock } from "../../src/shared/sheet.js";
import { button, icon, ICONS, make } from "./dom.js";
import { MOST_MARKDOWN, rendered } from "./markdown.js";
import { plain } from "./terminal.js";
import { say } from "./words.js";

export function sheet({ title, blocks }: Sheet, close: () => void): HTMLElement[] {
  return [
    make("header", {}, make("h2", { dir: "auto" }, title), button(say("close"), close, { class: "tool" }, icon(ICONS.close))),
    ...blocks.flatMap(element),
  ];
}

function element(block: SheetBlock): HTMLElement[] {
  const heading = "title" in block ? [make("h3", {}, block.title)] : [];
  switch (block.kind) {
    case "list":
      return [...heading, make("ul", {}, ...block.items.map((item) => make("li", { dir: "auto" }, item)))];
    case "table":
      return [make("div", { class: "text" }, make("table", { tabindex: 0 },
        make("thead", {}, make("tr", {}, ...block.head.map((cell) => make("th", { scope: "col" }, cell)))),
        make("tbody", {}, ...block.rows.map((cells) => make("tr", {}, ...cells.map((cell) => make("td", {}, cell)))))))];
    case "text":
      return [...heading, make("pre", { dir: "auto", tabindex: 0 }, plain(block.text))];
    case "markdown":
      return [...heading, make("div", { class: "text" }, block.text.length > MOST_MARKDOWN ? make("pre", { tabindex: 0 }, block.text) : rendered(block.text))];
  }
}
