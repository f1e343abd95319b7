/** Finding a text in all messages of the log that is shown, also in those that are not in the document. */

/** Milliseconds of searching between two looks at what else there is to do. */
const SLICE = 12;

class Search {
  /** @param {Session} session @param {(log: Log, index: number) => HTMLElement | null} reveal Shows a message. */
  constructor(session, reveal) {
    this.session = session;
    this.reveal = reveal;
    this.field = the("search");
    /** @type {number[]} */
    this.hits = [];
    this.at = -1;
    this.run = 0;
    /** @type {Log} */
    this.log = session.present;
    this.field.addEventListener("input", () => this.begin(this.log));
    this.field.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "Enter") {
        event.preventDefault();
        this.#step(event.shiftKey ? -1 : 1);
      } else if (event.key === "Escape") {
        this.field.value = "";
        this.begin(this.log);
        this.field.blur();
      }
    });
  }

  get query() {
    return this.field.value.trim().toLowerCase();
  }

  /** Search a log from its beginning. @param {Log} log */
  async begin(log) {
    const run = ++this.run;
    const query = this.query;
    this.log = log;
    this.hits = [];
    this.at = -1;
    this.#mark(null);
    this.#tell();
    let since = performance.now();
    for (let index = 0; query !== "" && index < log.messages; index++) {
      if (textOf(this.session.message(log, index)).toLowerCase().includes(query)) {
        this.hits.push(index);
      }
      if (performance.now() - since > SLICE) {
        await new Promise((resolve) => setTimeout(resolve));
        if (run !== this.run) {
          return;
        }
        since = performance.now();
      }
    }
    this.#tell();
  }

  /** @param {number} by */
  #step(by) {
    if (this.hits.length > 0) {
      this.at = this.at < 0 && by < 0 ? this.hits.length - 1 : (this.at + by + this.hits.length) % this.hits.length;
      this.#mark(this.reveal(this.log, this.hits[this.at]));
      this.#tell();
    }
  }

  #tell() {
    the("hits").textContent = this.query === "" ? "" : WORDS.hits(this.at + 1, this.hits.length);
  }

  /** Set the text apart where it stands, and open what it is folded into. @param {HTMLElement | null} element */
  #mark(element) {
    let ranges = element ? [...occurrences(element, this.query)] : [];
    if (element && ranges.length === 0) {
      unfold(element);
      ranges = [...occurrences(element, this.query)];
    }
    for (const range of ranges) {
      const fold = range.startContainer.parentElement?.closest("details");
      if (fold) {
        fold.open = true;
      }
    }
    if (typeof Highlight === "function") {
      CSS.highlights.set("found", new Highlight(...ranges));
    }
    const place = ranges[0]?.startContainer.parentElement ?? element;
    place?.scrollIntoView({ block: "center" });
  }
}

/** @param {HTMLElement} element @param {string} query */
function* occurrences(element, query) {
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const text = (node.nodeValue ?? "").toLowerCase();
    for (let at = text.indexOf(query); at >= 0; at = text.indexOf(query, at + query.length)) {
      const range = new Range();
      range.setStart(node, at);
      range.setEnd(node, Math.min(at + query.length, (node.nodeValue ?? "").length));
      yield range;
    }
  }
}
