/** What differs between two points: the messages that one has and the other has not, behind those both begin with. */

/** @param {Session} session @param {Point} from @param {Point} to @returns {Node[]} */
function comparison(session, from, to) {
  const same = common(from, to);
  const removed = from.messages - same;
  const added = to.messages - same;
  const tokens = to.tokens === null || from.tokens === null ? null : to.tokens - from.tokens;
  const summary = make(
    "div",
    { className: "summary" },
    make("p", {}, `${WORDS.from} `, make("b", {}, from.name), ` ${lower(WORDS.to)} `, make("b", {}, to.name)),
    make(
      "ul",
      {},
      make("li", {}, WORDS.common(same)),
      make("li", { className: "removed" }, `− ${WORDS.removed(removed)}`),
      make("li", { className: "added" }, `+ ${WORDS.added(added)}`),
      ...(tokens === null ? [] : [make("li", {}, `${tokens > 0 ? "+" : ""}${WORDS.tokens(tokens)}`)]),
    ),
  );
  if (removed + added === 0) {
    return [summary, make("p", { className: "note" }, from.log === to.log && from.step === to.step ? WORDS.choose : WORDS.same)];
  }
  const start = make("details", { className: "common" }, make("summary", {}, WORDS.common(same)), make("div"));
  start.addEventListener("toggle", () => start.open && start.lastElementChild?.replaceChildren(...part(session, to, 0, same)), { once: true });
  return [
    summary,
    ...(same > 0 ? [start] : []),
    make("div", { className: "sides" }, side(session, "removed", from, same, to), side(session, "added", to, same, from)),
  ];
}

/** @param {Session} session @param {"removed" | "added"} kind @param {Point} point @param {number} same @param {Point} other */
function side(session, kind, point, same, other) {
  const count = point.messages - same;
  const heading = make("h3", {}, `${kind === "removed" ? "−" : "+"} ${WORDS[kind](count)}`);
  const box = make("section", { className: kind }, heading, ...part(session, point, same, point.messages));
  const elsewhere = new Set(other.log.numbers.subarray(same, other.messages));
  for (const article of box.querySelectorAll("article")) {
    if (elsewhere.has(point.log.numbers[Number(article.dataset.index)])) {
      article.classList.add("kept");
      article.querySelector("header")?.append(make("small", {}, WORDS.moved));
    }
  }
  return box;
}

/** The messages `[from, to)`; of many the first ones, until more are asked for. @param {Session} session @param {Point} point @param {number} from @param {number} to @returns {Node[]} */
function part(session, point, from, to) {
  const end = ending(session, point.log, Math.min(to, from + WINDOW), to);
  const made = elements(session, point, from, end);
  if (end < to) {
    const more = make("button", { type: "button", className: "rest" }, WORDS.later(to - end));
    more.addEventListener("click", () => more.replaceWith(...part(session, point, end, to)));
    made.push(more);
  }
  return made;
}
