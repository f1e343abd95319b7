/** One message, and the parts it is made of. Whatever it holds, each field is looked at before it is believed. */

/** Images that are shown: they are in the page already, and of kinds that hold no script. */
const IMAGE = /^data:image\/(png|jpeg|gif|webp|avif);base64,[A-Za-z0-9+/=\s]+$/;

// @ts-expect-error made of client-vscode/webview/src/card.ts; stands before this script
const CARDS = EDITOR_CARDS;

/** @typedef {{id: string | null, name: string, text: string}} Call */
/** @typedef {{unfolded: Set<string>, words: typeof CARD_WORDS}} Folds */

const CARD_WORDS = {
  failed: WORDS.failedCall,
  noResult: WORDS.noResult,
  result: WORDS.answered,
  edit: WORDS.edit,
  addedLine: WORDS.addedLine,
  removedLine: WORDS.removedLine,
  showLess: WORDS.less,
  showLines: WORDS.whole,
  moreCalls: WORDS.moreCalls,
};

/** @param {unknown} value @returns {value is Record<string, unknown>} */
function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The tool calls of a message. @param {Message | null} message @returns {Call[]} */
function callsOf(message) {
  const calls = Array.isArray(message?.tool_calls) ? message.tool_calls : [];
  return calls.filter(isObject).map((call) => {
    const asked = isObject(call.function) ? call.function : call;
    const given = asked.arguments;
    return {
      id: typeof call.id === "string" ? call.id : null,
      name: typeof asked.name === "string" ? asked.name : "?",
      text: typeof given === "string" ? given : given === undefined ? "" : JSON.stringify(given),
    };
  });
}

/** The parts of a message; a text alone is one part. @param {Message | null} message @returns {Record<string, unknown>[]} */
function partsOf(message) {
  const content = message?.content;
  return typeof content === "string" ? [{ type: "text", text: content }] : Array.isArray(content) ? content.filter(isObject) : [];
}

/** All that can be read in a message. @param {Message | null} message */
function textOf(message) {
  const parts = partsOf(message).map((part) => part.text ?? part.think ?? "");
  return [...parts, ...callsOf(message).map(({ name, text }) => `${name} ${text}`)].join("\n");
}

/**
 * @param {Message | null} message @param {number} index
 * @param {Map<string, Message>} results What the tools it calls have answered, by the id of the call.
 */
function messageElement(message, index, results) {
  const role = String(message?.role ?? "?");
  const name = typeof message?.name === "string" ? ` · ${message.name}` : "";
  const known = /** @type {Record<string, string>} */ (WORDS.roles)[role];
  const article = make(
    "article",
    { className: "message" },
    make("header", {}, make("span", { className: "role" }, `${known ?? role}${name}`), make("span", { className: "number" }, exact(index))),
    make("div", { className: "body" }, ...(message === null ? [make("p", { className: "note" }, WORDS.damaged)] : body(message, results))),
  );
  article.dataset.role = known ? role : "other";
  article.dataset.index = String(index);
  return article;
}

/** @param {Message} message @param {Map<string, Message>} results */
function body(message, results) {
  const folds = { unfolded: new Set(), words: CARD_WORDS };
  if (message.role === "tool") {
    const title = typeof message.name === "string" ? message.name : WORDS.answered;
    return [CARDS.answerCard(title, failed(message), answerParts(message, "answer", folds), CARD_WORDS)];
  }
  const calls = callsOf(message);
  const cardAt = (/** @type {number} */ at) => {
    const { id, name, text } = calls[at];
    const result = id === null ? undefined : results.get(id);
    const answer = result ? answerParts(result, `${at}/answer`, folds) : null;
    return CARDS.card({ name, given: text, answer, failed: result !== undefined && failed(result) }, String(at), folds);
  };
  return [...partsOf(message).map(partElement).filter((element) => element !== null), ...CARDS.cards(calls.length, cardAt, "calls", folds)];
}

/** Output of programs is shown as it is. @param {Message} message @param {string} key @param {Folds} folds */
function answerParts(message, key, folds) {
  const bad = failed(message);
  const shown = partsOf(message).map((part, at) =>
    part.type === "text" && typeof part.text === "string" ? CARDS.folded(part.text, `${key}/${at}`, folds, bad) : partElement(part),
  );
  return shown.filter((element) => element !== null);
}

/** @param {Message} message */
function failed(message) {
  const texts = partsOf(message).flatMap((part) => (part.type === "text" && typeof part.text === "string" ? [part.text] : []));
  return CARDS.failedAnswer(message.is_error, texts.join("\n"));
}

/** @param {Record<string, unknown>} part @returns {HTMLElement | null} */
function partElement(part) {
  const type = String(part.type);
  if (type === "text" && typeof part.text === "string") {
    return part.text.trim() === "" ? null : clamped(part.text, prose);
  }
  if (type === "think" && typeof part.think === "string") {
    return folded("thinking", [WORDS.thinking], () => [clamped(/** @type {string} */ (part.think), prose)]);
  }
  const media = part[type];
  const url = isObject(media) ? media.url : media;
  if (typeof url === "string") {
    return IMAGE.test(url)
      ? make("img", { src: url, alt: WORDS.media(type, ""), loading: "lazy" })
      : make("p", { className: "note" }, WORDS.media(type, url.startsWith("data:") ? WORDS.omitted(url.length) : url));
  }
  return folded("unknown", [WORDS.unknownPart(type)], () => [clamped(JSON.stringify(part, null, 2), verbatim)]);
}

/** @param {string} className @param {(Node | string)[]} summary @param {() => Node[]} inside */
function folded(className, summary, inside) {
  return make("details", { className }, make("summary", {}, ...summary), make("div", { className: "inside" }, ...inside()));
}
