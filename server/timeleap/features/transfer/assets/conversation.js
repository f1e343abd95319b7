/** The conversation as it was at a point. Of a long one only a part is in the document at a time. */

/** Messages that are put into the document at once. */
const WINDOW = 100;

class Conversation {
  /** @param {Session} session @param {HTMLElement} box @param {(point: Point) => void} go */
  constructor(session, box, go) {
    this.session = session;
    this.box = box;
    this.go = go;
    /** @type {Point | null} */
    this.point = null;
    this.from = 0;
    this.to = 0;
    this.seen = new IntersectionObserver((entries) => {
      const button = entries.find(({ isIntersecting }) => isIntersecting)?.target;
      if (button instanceof HTMLElement) {
        button.click();
      }
    }, { rootMargin: "200px" });
  }

  /** Show a point; with `index` the part around that message, else the end. @param {Point} point @param {number} [index] */
  show(point, index) {
    this.point = point;
    const { log, messages } = point;
    this.from = beginning(this.session, log, Math.max(0, index === undefined ? messages - WINDOW : index - WINDOW / 2));
    this.to = ending(this.session, log, Math.min(messages, this.from + WINDOW), messages);
    this.box.replaceChildren(...this.#between(this.from, this.to));
    this.#ends();
  }

  /** The element that shows a message, if it is in the document. @param {number} index @returns {HTMLElement | null} */
  element(index) {
    const own = this.box.querySelector(`[data-index="${index}"]`);
    if (own || !this.point || index < this.from || index >= this.to) {
      return /** @type {HTMLElement | null} */ (own);
    }
    // The result of a call stands in the message that called.
    return index > 0 ? this.element(index - 1) : null;
  }

  /** @param {number} from @param {number} to */
  #between(from, to) {
    const point = /** @type {Point} */ (this.point);
    if (point.messages === 0) {
      return [make("p", { className: "note" }, WORDS.empty)];
    }
    return elements(this.session, point, from, to, (checkpoint, step) => this.#mark(checkpoint, step));
  }

  /** What leads to the parts that are not shown. */
  #ends() {
    const { messages } = /** @type {Point} */ (this.point);
    this.seen.disconnect();
    for (const button of this.box.querySelectorAll(".rest")) {
      button.remove();
    }
    if (this.from > 0) {
      this.box.prepend(this.#rest(WORDS.earlier(this.from), () => this.#earlier()));
    }
    if (this.to < messages) {
      this.box.append(this.#rest(WORDS.later(messages - this.to), () => this.#later()));
    }
  }

  #earlier() {
    const { log } = /** @type {Point} */ (this.point);
    const from = beginning(this.session, log, Math.max(0, this.from - WINDOW));
    const scroller = scrollerOf(this.box);
    const below = scroller.scrollHeight - scroller.scrollTop;
    this.box.prepend(...this.#between(from, this.from));
    this.from = from;
    this.#ends();
    scroller.scrollTop = scroller.scrollHeight - below; // what was being read stays where it was
  }

  #later() {
    const { log, messages } = /** @type {Point} */ (this.point);
    const to = ending(this.session, log, Math.min(messages, this.to + WINDOW), messages);
    this.box.append(...this.#between(this.to, to));
    this.to = to;
    this.#ends();
  }

  /** @param {string} text @param {() => void} reveal */
  #rest(text, reveal) {
    const button = make("button", { type: "button", className: "rest" }, text);
    button.addEventListener("click", reveal);
    this.seen.observe(button);
    return button;
  }

  /** @param {Checkpoint} checkpoint @param {number} step */
  #mark(checkpoint, step) {
    const { log } = /** @type {Point} */ (this.point);
    const button = make("button", { type: "button", className: "mark" }, make("span", {}, WORDS.checkpoint(checkpoint.id, checkpoint.label)), make("small", {}, [checkpoint.happened ?? "", checkpoint.failed ? WORDS.failed(checkpoint.failed) : "", checkpoint.changed ? WORDS.files(checkpoint.changed) : "", when(checkpoint.createdAt)].filter(Boolean).join(" · ")));
    if (checkpoint.files) {
      button.title = checkpoint.files.join("\n");
    }
    button.addEventListener("click", () => this.go(new Point(log, step)));
    return button;
  }
}

/**
 * The messages `[from, to)` of a point as elements, with a mark where a checkpoint is. Results stand with their calls.
 * @param {Session} session @param {Point} point @param {number} from @param {number} to
 * @param {(checkpoint: Checkpoint, step: number) => Node} [mark]
 */
function elements(session, point, from, to, mark) {
  const { log } = point;
  /** @type {Node[]} */
  const made = [];
  /** @type {Map<string, Message>} */
  let results = new Map();
  /** @type {Set<string>} */
  let asked = new Set();
  let step = from === 0 ? 0 : firstWith(log, from + 1);
  const marks = (/** @type {number} */ messages) => {
    for (; mark && step < log.checkpoints.length && step <= point.step && log.checkpoints[step].messages <= messages; step++) {
      made.push(mark(log.checkpoints[step], step));
    }
  };
  for (let index = from; index < to; index++) {
    marks(index);
    const message = session.message(log, index);
    const id = answers(message);
    if (id !== null && asked.delete(id)) {
      continue; // shown with its call
    }
    if (id === null) {
      asked = new Set(callsOf(message).flatMap((call) => (call.id === null ? [] : [call.id])));
      results = asked.size > 0 ? resultsAfter(session, log, index, point.messages) : new Map();
      asked = new Set([...asked].filter((one) => results.has(one)));
    }
    made.push(messageElement(message, index, results));
  }
  marks(to);
  return made;
}

/** The id of the call that a message answers. @param {Message | null} message */
function answers(message) {
  return message?.role === "tool" && typeof message.tool_call_id === "string" ? message.tool_call_id : null;
}

/** The results that follow a message, by the id of the call. @param {Session} session @param {Log} log @param {number} index @param {number} end */
function resultsAfter(session, log, index, end) {
  /** @type {Map<string, Message>} */
  const found = new Map();
  for (let next = index + 1; next < end; next++) {
    const message = session.message(log, next);
    const id = answers(message);
    if (id === null) {
      break;
    }
    if (!found.has(id)) {
      found.set(id, message);
    }
  }
  return found;
}

/** A part does not begin between a call and its result. @param {Session} session @param {Log} log @param {number} index */
function beginning(session, log, index) {
  let at = index;
  while (at > 0 && answers(session.message(log, at)) !== null) {
    at--;
  }
  return at;
}

/** Nor does it end there. @param {Session} session @param {Log} log @param {number} index @param {number} end */
function ending(session, log, index, end) {
  let at = index;
  while (at < end && answers(session.message(log, at)) !== null) {
    at++;
  }
  return at;
}

/** What scrolls when that element is scrolled. @param {HTMLElement} element @returns {Element} */
function scrollerOf(element) {
  const column = /** @type {HTMLElement} */ (element.closest("#shown"));
  return getComputedStyle(column).overflowY === "auto" ? column : /** @type {Element} */ (document.scrollingElement);
}
