/** The page: what is shown, what it is compared with, and how to get from one point to another. */

class Page {
  /** @param {Session} session */
  constructor(session) {
    this.session = session;
    /** @type {Point | null} */
    this.base = null;
    this.point = this.#addressed() ?? new Point(session.present, Infinity);
    this.overview = new Overview(session, (point) => this.go(point));
    this.conversation = new Conversation(session, the("content"), (point) => this.go(point));
    this.search = new Search(session, (log, index) => this.#reveal(log, index));
    this.#name();
    this.#listen();
    the("page").hidden = false;
    this.go(this.point);
  }

  /** Show a point. @param {Point} point @param {number} [index] The message to show of it; the last one if not given. */
  go(point, index) {
    const log = this.point.log;
    this.point = point;
    this.overview.show(point, this.base);
    this.#say();
    if (this.base) {
      the("content").replaceChildren(...comparison(this.session, this.base, point));
    } else {
      this.conversation.show(point, index);
    }
    if (index === undefined) {
      this.#settle();
    }
    if (log !== point.log && this.search.query !== "") {
      void this.search.begin(point.log);
    }
    this.search.log = point.log;
    this.#address();
  }

  /** Where a conversation ends is what a point is about; but who looks at the overview is left there. */
  #settle() {
    const column = the("shown");
    const scroller = scrollerOf(column);
    if (scroller === column) {
      column.scrollTop = this.base ? 0 : column.scrollHeight;
    } else if (column.getBoundingClientRect().top <= 0) {
      scroller.scrollTop = this.base ? scroller.scrollTop + column.getBoundingClientRect().top : scroller.scrollHeight;
    }
  }

  /** @param {number} step */
  #step(step) {
    this.go(new Point(this.point.log, step));
  }

  /** @param {Point | null} base */
  #compare(base) {
    this.base = base;
    this.#bases();
    this.go(this.point);
  }

  /** @param {Log} log @param {number} index */
  #reveal(log, index) {
    if (this.base) {
      this.#compare(null);
    }
    const inside = this.point.log === log && index < this.point.messages;
    this.go(inside ? this.point : new Point(log, firstWith(log, index + 1)), index);
    return this.conversation.element(index);
  }

  /** The texts that stay. */
  #name() {
    const { session, losses } = this.session.facts;
    const present = this.session.present;
    document.documentElement.lang = WORDS.tag;
    the("title").textContent = session.title || session.id || WORDS.untitled;
    const facts = [
      WORDS.messages(present.messages),
      present.facts.tokens > 0 ? WORDS.tokens(present.facts.tokens) : null,
      WORDS.checkpoints(present.checkpoints.length),
      this.session.logs.length > 1 ? WORDS.timelines(this.session.logs.length - 1) : null,
      session.updatedAt ? WORDS.updated(when(session.updatedAt)) : null,
      session.parent ? WORDS.forked(session.parent) : null,
    ];
    the("facts").textContent = facts.filter(Boolean).join(" · ");
    the("compare-word").textContent = WORDS.compare;
    the("search-word").textContent = WORDS.search;
    the("pin").textContent = WORDS.pin;
    the("keys").textContent = `${WORDS.keys} ${WORDS.windowed}`;
    the("made").textContent = [...losses, WORDS.made].join(" ");
    the("slider").setAttribute("aria-label", WORDS.sliderName);
    the("slider").max = String(this.overview.most);
    the("back").setAttribute("aria-label", WORDS.back);
    the("forward").setAttribute("aria-label", WORDS.forward);
    this.#bases();
  }

  /** What the point is, wherever that is told. */
  #say() {
    const { log, step, checkpoint, messages, tokens } = this.point;
    const present = log === this.session.present;
    const name = checkpoint ? WORDS.checkpoint(checkpoint.id, checkpoint.label) : null;
    the("tokens").textContent = tokens === null ? "–" : exact(tokens);
    the("tokens-word").textContent = tokens === null ? WORDS.uncounted : WORDS.tokensWord;
    the("step").textContent = `${exact(step + 1)} / ${exact(log.steps)}`;
    the("back").disabled = step === 0;
    the("forward").disabled = step === log.steps - 1;
    the("slider").value = String(messages);
    the("slider").setAttribute("aria-valuetext", [name ?? (present ? WORDS.now : WORDS.end), WORDS.stepOf(step + 1, log.steps), WORDS.messages(messages), inTokens(tokens)].join(", "));
    const heading = this.base ? WORDS.comparison : name ? WORDS.atCheckpoint(this.point.name) : present ? WORDS.atPresent : WORDS.atEnd(log.name);
    const counts = [WORDS.messages(messages), checkpoint?.createdAt ? when(checkpoint.createdAt) : null];
    the("heading").replaceChildren(make("span", {}, heading), make("small", {}, counts.filter(Boolean).join(" · ")));
    the("about").textContent = this.#about(log);
    const prompt = log.facts.systemPrompt === null ? null : this.session.facts.prompts[log.facts.systemPrompt];
    the("prompt").hidden = prompt === null || this.base !== null;
    the("prompt").firstElementChild.textContent = WORDS.prompt;
    the("prompt").lastElementChild.replaceChildren(prose(prompt ?? ""));
  }

  /** @param {Log} log */
  #about(log) {
    const { reason, createdAt } = log.facts;
    const { tokens } = new Point(log, Infinity);
    const holds = WORDS.about.holds(WORDS.messages(log.messages), WORDS.checkpoints(log.checkpoints.length), inTokens(tokens));
    if (reason === null) {
      return `${WORDS.about.present} ${holds}`;
    }
    const what = WORDS.about.timeline(log.name, WORDS.reason[reason], when(createdAt));
    const where = log.parent && log.shared > 0 ? WORDS.about.leaves(log.parent.name, log.shared) : WORDS.about.apart;
    return `${what} ${where} ${holds}`;
  }

  /** The choices of what to compare with: nothing, the end of each log, and the point that was chosen, if it is none of these. */
  #bases() {
    const { base } = this;
    const ends = this.session.logs.map((log) => make("option", { value: String(log.index), selected: base?.log === log && !base.checkpoint }, WORDS.pointEnd(log.name)));
    const own = base?.checkpoint ? [make("option", { value: "point", selected: true }, base.name)] : [];
    the("base").replaceChildren(make("option", { value: "", selected: !base }, WORDS.nothing), ...own, ...ends);
  }

  #listen() {
    const slider = the("slider");
    slider.addEventListener("input", () => this.#slid(Number(slider.value)));
    the("back").addEventListener("click", () => this.#step(this.point.step - 1));
    the("forward").addEventListener("click", () => this.#step(this.point.step + 1));
    the("pin").addEventListener("click", () => this.#compare(this.point));
    the("tools").addEventListener("submit", (/** @type {Event} */ event) => event.preventDefault());
    the("base").addEventListener("change", () => {
      const { value } = the("base");
      this.#compare(value === "" ? null : value === "point" ? this.base : new Point(this.session.logs[Number(value)], Infinity));
    });
    document.addEventListener("keydown", (event) => this.#pressed(event));
    addEventListener("hashchange", () => {
      const point = this.#addressed();
      if (point && (point.log !== this.point.log || point.step !== this.point.step)) {
        this.go(point);
      }
    });
    addEventListener("beforeprint", () => {
      unfold(document.body);
    });
  }

  /** The slider was moved to a number of messages: go to the checkpoint there, but do not stay where it was. @param {number} messages */
  #slid(messages) {
    const point = Point.nearest(this.point.log, messages);
    const still = point.messages === this.point.messages && messages !== point.messages;
    const towards = this.point.step + Math.sign(messages - this.point.messages);
    this.go(still && Math.abs(messages - point.messages) === 1 ? new Point(this.point.log, towards) : point);
  }

  /** @param {KeyboardEvent} event */
  #pressed(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    const typing = target.matches("input:not([type=range]), select, textarea");
    if (typing || event.altKey || event.ctrlKey || event.metaKey) {
      return;
    }
    const { step, log } = this.point;
    /** @type {Record<string, () => void>} */
    const keys = {
      ArrowLeft: () => this.#step(step - 1),
      ArrowRight: () => this.#step(step + 1),
      Home: () => this.#step(0),
      End: () => this.#step(log.steps - 1),
      "/": () => the("search").focus(),
    };
    /** @type {Record<string, () => void>} */
    const slide = target === the("slider") ? { ArrowDown: keys.ArrowLeft, ArrowUp: keys.ArrowRight, PageDown: keys.ArrowLeft, PageUp: keys.ArrowRight } : {};
    const action = { ...keys, ...slide }[event.key];
    if (action) {
      event.preventDefault();
      action();
    }
  }

  /** The point that the page's address names, such as `#context_3/7`. */
  #addressed() {
    const [, id, step] = /^#([\w.-]+)(?:\/(\d+))?$/.exec(location.hash) ?? [];
    const log = this.session.logs.find(({ facts }) => (facts.id ?? "present") === id);
    return log ? new Point(log, step === undefined ? Infinity : Number(step)) : null;
  }

  #address() {
    const { log, step, checkpoint } = this.point;
    const id = log.facts.id ?? "present";
    try {
      history.replaceState(null, "", checkpoint ? `#${id}/${step}` : `#${id}`);
    } catch {
      // A browser may refuse it to a page that is opened too often; the address is but a convenience.
    }
  }
}

/** @param {number | null} tokens */
function inTokens(tokens) {
  return tokens === null ? WORDS.uncounted : WORDS.tokens(tokens);
}

try {
  new Page(new Session());
} catch (error) {
  the("page").replaceWith(make("p", { className: "broken" }, WORDS.broken, " ", String(error)));
}
