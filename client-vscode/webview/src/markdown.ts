/**
 * Text of messages as Markdown. HTML is text, pictures are named and not loaded, and links lead to the web only; what the renderer makes
 * is sanitised all the same, so that a mistake in one of them does no harm.
 */

import DOMPurify from "dompurify";
import MarkdownIt from "markdown-it";

/** Characters; longer texts are shown as they are written. */
export const MOST_MARKDOWN = 32 * 1024;

const TAGS = [
  ..."p br hr em strong s del code pre blockquote ul ol li table thead tbody tr th td a h1 h2 h3 h4 h5 h6".split(" "),
];


export const markdown = new MarkdownIt({ html: false, linkify: false, breaks: true });
markdown.validateLink = (url) => /^(?:https?:|mailto:)/iu.test(url.trim());
markdown.renderer.rules.image = (tokens, index) => {
  const token = tokens[index];
  return markdown.utils.escapeHtml(`![${token?.content ?? ""}](${token?.attrGet("src") ?? ""})`);
};

/** The Markdown as elements that run nothing and load nothing. */
export function rendered(text: string): DocumentFragment {
  const fragment = DOMPurify.sanitize(markdown.render(text), {
    ALLOWED_TAGS: TAGS,
    ALLOWED_ATTR: ["href", "title", "start"],
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
    ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/iu,
    RETURN_DOM_FRAGMENT: true,
  });
  for (const block of fragment.querySelectorAll("p, li, h1, h2, h3, h4, h5, h6, td, th, blockquote, pre")) {
    block.setAttribute("dir", "auto");
  }
  for (const link of fragment.querySelectorAll("a")) {
    // Where a link leads is seen before it is followed.
    link.title = link.href;
    link.rel = "noreferrer noopener";
  }
  for (const table of fragment.querySelectorAll("table, pre")) {
    table.setAttribute("tabindex", "0"); // wide ones scroll by the keyboard, too
  }
  return fragment;
}
