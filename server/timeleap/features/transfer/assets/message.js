/** One message, and the parts it is made of. Whatever it holds, each field is looked at before it is believed. */

/** Images that are shown: they are in the page already, and of kinds that hold no script. */
const IMAGE = /^data:image\/(png|jpeg|gif|webp|avif);base64,[A-Za-z0-9+/=\s]+$/;

/** @typedef {{id: string | null, name: string, text: string}} Call */

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
  const code = message.role === "tool";
  return [
    ...partsOf(message).map((part) => partElement(part, code)),
    ...callsOf(message).map((call) => callElement(call, call.id === null ? undefined : results.get(call.id))),
  ].filter((element) => element !== null);
}

/** @param {Record<string, unknown>} part @param {boolean} code Whether its text is a program's. @returns {HTMLElement | null} */
function partElement(part, code) {
  const type = String(part.type);
  if (type === "text" && typeof part.text === "string") {
    return part.text.trim() === "" ? null : clamped(part.text, code ? verbatim : prose);
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

/** A call and what came of it, folded as one. @param {Call} call @param {Message | undefined} result */
function callElement(call, result) {
  const summary = [make("code", { className: "name" }, call.name), make("span", { className: "preview" }, oneLine(call.text))];
  const open = () => {
    const asked = make("div", { className: "asked" }, make("h4", {}, WORDS.asked), clamped(pretty(call.text), verbatim));
    const parts = result ? partsOf(result).map((part) => partElement(part, true)) : [];
    const answer = result ? parts.filter((part) => part !== null) : [make("p", { className: "note" }, WORDS.noResult)];
    return [asked, make("div", { className: "answered" }, make("h4", {}, WORDS.answered), ...answer)];
  };
  const element = folded("call", summary, open);
  element.classList.toggle("open-ended", !result);
  element.querySelector("summary")?.setAttribute("aria-label", `${WORDS.calls(call.name)} ${oneLine(call.text)}`);
  return element;
}

/** @param {string} className @param {(Node | string)[]} summary @param {() => Node[]} inside */
function folded(className, summary, inside) {
  return make("details", { className }, make("summary", {}, ...summary), make("div", { className: "inside" }, ...inside()));
}

/** @param {string} text */
function oneLine(text) {
  return text.slice(0, 200).replace(/\s+/g, " ");
}

/** JSON as people read it; what is none stays as it is. @param {string} text */
function pretty(text) {
  try {
    const value = JSON.parse(text);
    return isObject(value) ? Object.entries(value).map(([key, one]) => field(key, one)).join("\n") : text;
  } catch {
    return text;
  }
}

/** @param {string} key @param {unknown} value */
function field(key, value) {
  return typeof value === "string" ? (value.includes("\n") ? `${key}:\n${value}` : `${key}: ${value}`) : `${key}: ${JSON.stringify(value)}`;
}
