/**
 * Text of messages as Markdown. The parser's tokens become elements, so nothing is ever parsed as HTML: HTML is text, pictures are named
 * and not loaded, and links lead to the web only, and only when somebody follows them.
 */

import MarkdownIt from "markdown-it";
import { make } from "./dom.js";

/** Characters; longer texts are shown as they are written. */
export const MOST_MARKDOWN = 32 * 1024;

const TAGS = new Set("p hr em strong s code pre blockquote ul ol li table thead tbody tr th td a h1 h2 h3 h4 h5 h6".split(" "));

const parser = new MarkdownIt({ html: false, linkify: false, breaks: true });
parser.validateLink = (url) => /^(?:https?:|mailto:)/iu.test(url.trim());

export type Token = ReturnType<typeof parser.parse>[number];

/** What Markdown consists of, block by block. */
export function tokensOf(text: string): Token[] {
  return parser.parse(text, {});
}

/** The Markdown as elements that run nothing and load nothing. */
export function rendered(text: string): DocumentFragment {
  const fragment = document.createDocumentFragment();
  fill(fragment, tokensOf(text));
  return fragment;
}

function fill(box: ParentNode, tokens: readonly Token[]): void {
  const open = [box];
  for (const token of tokens) {
    const parent = open.at(-1) ?? box;
    if (token.type === "inline") {
      fill(parent, token.children ?? []);
    } else if (token.nesting === 0) {
      parent.append(leaf(token));
    } else if (!token.hidden && token.nesting === -1) {
      open.pop();
    } else if (!token.hidden) {
      const element = block(token);
      parent.append(element);
      open.push(element);
    }
  }
}

/** An element that others go into. */
function block(token: Token): HTMLElement {
  const element = document.createElement(TAGS.has(token.tag) ? token.tag : "span");
  if (element instanceof HTMLAnchorElement) {
    element.href = token.attrGet("href") ?? "";
    element.rel = "noreferrer noopener";
    element.target = "_blank";
    element.title = element.href; // where a link leads is seen before it is followed
  } else if (element instanceof HTMLOListElement) {
    element.start = Number(token.attrGet("start") ?? 1);
  } else if (element instanceof HTMLTableElement) {
    element.tabIndex = 0; // wide ones scroll by the keyboard, too
  }
  element.dir = "auto";
  return element;
}

function leaf(token: Token): Node | string {
  switch (token.type) {
    case "softbreak":
    case "hardbreak":
      return make("br");
    case "hr":
      return make("hr");
    case "code_inline":
      return make("code", {}, token.content);
    case "code_block":
    case "fence":
      return make("pre", { dir: "auto", tabindex: 0 }, make("code", {}, token.content.replace(/\n$/u, "")));
    case "image":
      return `![${token.content}](${token.attrGet("src") ?? ""})`;
    default:
      return token.content;
  }
}
