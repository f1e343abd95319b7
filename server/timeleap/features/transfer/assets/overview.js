/** The session at a glance: the curve of its tokens, and below it, on the same axis of messages, its logs as branches. */

/** Pixels from one branch to the next, and from the edge to the first message; the latter is half of the slider's thumb. */
const ROW = 40;
const EDGE = 9;
const BEND = 9;
/** Pixels between two marks of checkpoints. */
const TICKS = 4;
const CURVE = { top: 16, axis: 126, height: 148 };

class Overview {
  /** @param {Session} session @param {(point: Point) => void} go */
  constructor(session, go) {
    this.session = session;
    this.go = go;
    this.most = Math.max(1, ...session.logs.map((log) => log.messages));
    /** Whether there is a curve: what was only estimated has none. */
    this.counted = session.logs.some(({ usages }) => usages.length > 0);
    this.mostTokens = Math.max(0, ...session.logs.flatMap((log) => [log.facts.tokens, highest(log.usages)]));
    /** @type {Point} */
    this.point = new Point(session.present, Infinity);
    /** @type {Point | null} */
    this.base = null;
    /** @type {HTMLButtonElement[]} */
    this.buttons = session.logs.map((log) => this.#button(log));
    the("lanes").append(...this.buttons);
    the("lanes").setAttribute("aria-label", WORDS.logs);
    the("branches").setAttribute("aria-label", WORDS.branches(session.logs.length - 1));
    this.#listen(the("curve"), () => this.point.log);
    this.#listen(the("branches"), (y) => session.logs[Math.max(0, Math.min(session.logs.length - 1, Math.floor(y / ROW)))]);
    new ResizeObserver(() => this.draw()).observe(the("branches"));
  }

  /** @param {Point} point @param {Point | null} base */
  show(point, base) {
    this.point = point;
    this.base = base;
    for (const [index, button] of this.buttons.entries()) {
      button.setAttribute("aria-pressed", String(index === point.log.index));
    }
    const logs = the("logs");
    const [top, bottom] = [middle(point.log) - ROW / 2, middle(point.log) + ROW / 2];
    logs.scrollTop = Math.min(top, Math.max(bottom - logs.clientHeight, logs.scrollTop));
    this.draw();
  }

  draw() {
    this.width = the("branches").clientWidth;
    the("slider").style.width = `${this.width}px`;
    this.#drawCurve();
    this.#drawBranches();
  }

  /** @param {number} messages */
  x(messages) {
    return EDGE + ((this.width - 2 * EDGE) * messages) / this.most;
  }

  /** @param {number} tokens */
  #y(tokens) {
    return CURVE.axis - ((CURVE.axis - CURVE.top) * tokens) / Math.max(1, this.mostTokens);
  }

  /** The branch that a state lies on: up to where a timeline leaves it is that of its parent. @param {Log} log @param {number} messages @returns {Log} */
  #branch(log, messages) {
    return log.parent && messages <= log.shared ? this.#branch(log.parent, messages) : log;
  }

  #drawCurve() {
    const curve = the("curve");
    const { log } = this.point;
    const x = this.x(this.point.messages);
    curve.setAttribute("aria-label", this.counted ? WORDS.curve(log.name, WORDS.tokens(this.mostTokens)) : WORDS.noTokens);
    curve.replaceChildren(
      draw("line", { class: "axis", x1: EDGE, x2: this.width - EDGE, y1: CURVE.axis, y2: CURVE.axis }),
      draw("line", { class: "grid", x1: EDGE, x2: this.width - EDGE, y1: CURVE.top, y2: CURVE.top }),
      draw("text", { class: "scale", x: this.width - EDGE, y: CURVE.top - 5, "text-anchor": "end" }, this.counted ? exact(this.mostTokens) : WORDS.noTokens),
      draw("text", { class: "scale", x: EDGE, y: CURVE.height - 7 }, "0"),
      draw("text", { class: "scale", x: this.width - EDGE, y: CURVE.height - 7, "text-anchor": "end" }, WORDS.messages(this.most)),
    );
    if (log !== this.session.present) {
      curve.append(draw("path", { class: "curve other", d: this.#path(this.session.present) }));
    }
    const path = this.#path(log);
    if (path) {
      const first = this.x(log.usages[0][0]);
      const last = this.x(log.usages[log.usages.length - 1][0]);
      curve.append(
        draw("path", { class: "area", d: `${path}L${last} ${CURVE.axis}L${first} ${CURVE.axis}Z` }),
        draw("path", { class: "curve", d: path }),
      );
    }
    curve.append(draw("path", { class: "ticks", d: this.#ticks(log.checkpoints, CURVE.axis, 5) }));
    if (this.base) {
      curve.append(rule("base", this.x(this.base.messages), CURVE.top, CURVE.height));
    }
    curve.append(rule("here", x, CURVE.top, CURVE.height), draw("circle", { class: "here", cx: x, cy: this.#y(this.counted ? this.point.tokens ?? 0 : 0), r: 4.5 }));
  }

  /** The curve of a log, at most one point a pixel. @param {Log} log */
  #path(log) {
    /** @type {Map<number, number>} */
    const columns = new Map();
    for (const [messages, tokens] of log.usages) {
      const column = Math.round(this.x(messages) * 2) / 2;
      columns.set(column, Math.max(tokens, columns.get(column) ?? 0));
    }
    return [...columns].map(([x, tokens], index) => `${index ? "L" : "M"}${x} ${this.#y(tokens).toFixed(1)}`).join("");
  }

  /** Marks where checkpoints are; where there are many, not so many that they would run together. @param {Checkpoint[]} checkpoints @param {number} y @param {number} height */
  #ticks(checkpoints, y, height) {
    let last = -Infinity;
    const far = checkpoints.map(({ messages }) => Math.round(this.x(messages))).filter((x) => (x - last >= TICKS ? ((last = x), true) : false));
    return far.map((x) => `M${x} ${y - height / 2}v${height}`).join("");
  }

  #drawBranches() {
    const branches = the("branches");
    const { logs } = this.session;
    const height = logs.length * ROW;
    branches.style.height = `${height}px`;
    branches.replaceChildren();
    for (const log of [...logs].reverse()) {
      branches.append(this.#lane(log));
    }
    branches.append(draw("path", { class: "trail", d: this.#trail(this.point.log, this.point.messages) }));
    if (this.base) {
      branches.append(this.#marker("base", this.base, 5));
    }
    branches.append(rule("here", this.x(this.point.messages), 0, height), this.#marker("here", this.point, 6));
  }

  /** @param {Log} log */
  #lane(log) {
    const shown = log === this.point.log ? " shown" : "";
    const end = this.x(log.messages) + (log.parent && log.messages === log.shared ? BEND : 0);
    const bend = log.parent ? this.x(log.shared) + BEND : 0;
    const own = log.checkpoints.slice(log.facts.from?.checkpoints ?? 0).filter(({ messages }) => this.x(messages) >= bend);
    const start = log.parent ? this.#leave(log) : `M${this.x(0)} ${middle(log)}`;
    return draw(
      "g",
      { class: `lane ${log.facts.reason ?? "present"}${shown}` },
      draw("path", { class: "line", d: `${start}H${end}` }),
      draw("path", { class: "ticks", d: this.#ticks(own, middle(log), 9) }),
      draw("circle", { class: "end", cx: end, cy: middle(log), r: 4 }),
    );
  }

  /** From its parent down to its own lane. @param {Log} log */
  #leave(log) {
    const x = this.x(log.shared);
    const parent = this.#branch(/** @type {Log} */ (log.parent), log.shared);
    return `M${x} ${middle(parent)}V${middle(log) - BEND}Q${x} ${middle(log)} ${x + BEND} ${middle(log)}`;
  }

  /** The way from the beginning to a state. @param {Log} log @param {number} messages @returns {string} */
  #trail(log, messages) {
    const branch = this.#branch(log, messages);
    const way = branch.parent ? this.#trail(branch.parent, branch.shared) + this.#leave(branch) : `M${this.x(0)} ${middle(branch)}`;
    return `${way}H${Math.max(this.x(messages), branch.parent ? this.x(branch.shared) + BEND : 0)}`;
  }

  /** @param {string} name @param {Point} point @param {number} r */
  #marker(name, point, r) {
    return draw("circle", { class: name, cx: this.x(point.messages), cy: middle(this.#branch(point.log, point.messages)), r });
  }

  /** @param {Log} log */
  #button(log) {
    const { reason, createdAt } = log.facts;
    const more = reason === null ? WORDS.messages(log.messages) : [WORDS.short[reason], createdAt ? shortly(createdAt) : ""].filter(Boolean).join(" · ");
    const button = make("button", { type: "button", className: `lane ${reason ?? "present"}`, title: more }, make("span", { className: "name" }, log.name), make("small", {}, more));
    button.addEventListener("click", () => this.go(new Point(log, Infinity)));
    return button;
  }

  /** Going where the pointer is, as long as it is down. @param {SVGElement} element @param {(y: number) => Log} logAt */
  #listen(element, logAt) {
    /** @type {Log | null} */
    let log = null;
    const follow = (/** @type {PointerEvent} */ event) => {
      if (log) {
        const messages = ((event.clientX - element.getBoundingClientRect().left - EDGE) / (this.width - 2 * EDGE)) * this.most;
        this.go(Point.nearest(log, messages));
      }
    };
    element.addEventListener("pointerdown", (event) => {
      log = logAt(event.clientY - element.getBoundingClientRect().top);
      element.setPointerCapture(event.pointerId);
      follow(event);
    });
    element.addEventListener("pointermove", follow);
    element.addEventListener("pointerup", () => (log = null));
    element.addEventListener("pointercancel", () => (log = null));
  }
}

/** @param {[number, number][]} usages */
function highest(usages) {
  return usages.reduce((most, [, tokens]) => Math.max(most, tokens), 0);
}

/** @param {Log} log */
function middle(log) {
  return log.index * ROW + ROW / 2;
}

/** @param {string} name @param {number} x @param {number} top @param {number} bottom */
function rule(name, x, top, bottom) {
  return draw("line", { class: `rule ${name}`, x1: x, x2: x, y1: top, y2: bottom });
}
