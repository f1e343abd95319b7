/** Making elements. Text becomes text, never markup: nothing in this page is ever parsed as HTML. */

/**
 * @template {keyof HTMLElementTagNameMap} Name
 * @param {Name} name @param {Record<string, unknown>} [properties] @param {...(Node | string | null)} children
 * @returns {HTMLElementTagNameMap[Name]}
 */
function make(name, properties = {}, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** An element of a drawing. @param {string} name @param {Record<string, string | number>} attributes @param {...(Node | string)} children */
function draw(name, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) {
    element.setAttribute(key, String(value));
  }
  element.append(...children);
  return element;
}

/** An element of the page's own skeleton. @param {string} id @returns {any} */
function the(id) {
  return document.getElementById(id);
}

const LINES_SHOWN = 32;
const CHARACTERS_SHOWN = 6_000;

/** A long text shows its beginning until all of it is asked for. @param {string} text @param {(text: string) => HTMLElement} render */
function clamped(text, render) {
  const lines = text.split("\n");
  const short = lines.slice(0, LINES_SHOWN).join("\n").slice(0, CHARACTERS_SHOWN);
  if (lines.length <= LINES_SHOWN * 1.5 && text.length <= CHARACTERS_SHOWN * 1.5) {
    return render(text);
  }
  const more = make("button", { type: "button", className: "more" }, WORDS.whole(lines.length));
  const box = make("div", { className: "clamped" }, render(short), more);
  more.addEventListener("click", () => box.replaceWith(render(text)));
  return box;
}

/** Show all of what is folded in calls and answers. @param {Element} element */
function unfold(element) {
  for (const fold of element.querySelectorAll('.fold[aria-expanded="false"]')) {
    /** @type {HTMLElement} */ (fold).click();
  }
}

/** @param {string} text */
function verbatim(text) {
  return make("pre", {}, text);
}
