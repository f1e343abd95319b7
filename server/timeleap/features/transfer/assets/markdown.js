/** Text of messages as Markdown. The parser's tokens become elements, so that here, too, nothing is ever parsed as HTML: HTML is text,
 * pictures are named and not loaded, and links lead to the web only, and only when somebody follows them. */

/** Characters; longer texts are shown as they are written. */
const MOST_MARKDOWN = 32 * 1024;

const TAGS = new Set("p hr em strong s code pre blockquote ul ol li table thead tbody tr th td a h1 h2 h3 h4 h5 h6".split(" "));

/** @type {any} of markdown-it, which stands before this script */
const MARKDOWN = /** @type {any} */ (globalThis).markdownit({ html: false, linkify: false, breaks: true });
MARKDOWN.validateLink = (/** @type {string} */ url) => /^(?:https?:|mailto:)/iu.test(url.trim());

/** @typedef {{type: string, tag: string, nesting: number, content: string, hidden: boolean, children: Token[] | null, attrGet: (name: string) => string | null}} Token */

/** @param {string} text */
function prose(text) {
  const box = make("div", { className: "text" });
  if (text.length > MOST_MARKDOWN) {
    box.append(verbatim(text));
  } else {
    fill(box, MARKDOWN.parse(text, {}));
  }
  return box;
}

/** @param {HTMLElement} box @param {Token[]} tokens */
function fill(box, tokens) {
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

/** An element that others go into. @param {Token} token @returns {HTMLElement} */
function block(token) {
  const element = document.createElement(TAGS.has(token.tag) ? token.tag : "span");
  if (element instanceof HTMLAnchorElement) {
    // Where a link leads is seen before it is followed.
    Object.assign(element, { href: token.attrGet("href") ?? "", rel: "noreferrer noopener", target: "_blank" });
    element.title = element.href;
  } else if (element instanceof HTMLOListElement) {
    element.start = Number(token.attrGet("start") ?? 1);
  } else if (element instanceof HTMLTableElement) {
    element.tabIndex = 0; // wide ones scroll by the keyboard, too
  }
  element.dir = "auto";
  return element;
}

/** @param {Token} token @returns {Node | string} */
function leaf(token) {
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
      return verbatim(token.content.replace(/\n$/, ""));
    case "image":
      return `![${token.content}](${token.attrGet("src") ?? ""})`;
    default:
      return token.content;
  }
}
