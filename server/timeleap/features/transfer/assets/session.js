/** The session as it stands in the page: its logs, and the messages they are made of. */

/**
 * @typedef {{id: number, label?: string, createdAt?: string, messages: number, tokens: number, files?: string[], changed?: number, happened?: string, failed?: number}} Checkpoint
 * @typedef {{id: string | null, reason: Reason | null, createdAt: string | null, from: {log: number, messages: number, checkpoints: number, usages: number} | null,
 *   runs: [number, number][], checkpoints: Checkpoint[], usages: [number, number][], tokens: number, systemPrompt: number | null}} LogFacts
 * @typedef {keyof typeof ENGLISH.reason} Reason
 * @typedef {{session: {id: string, title: string | null, createdAt: string, updatedAt: string, parent?: string},
 *   block: number, prompts: string[], logs: LogFacts[], losses: string[]}} Facts
 * @typedef {{role: string, content?: unknown, name?: unknown, tool_calls?: unknown, tool_call_id?: unknown, is_error?: unknown}} Message
 */

/** Blocks of messages that are kept parsed. */
const BLOCKS_KEPT = 64;

/** @param {string} id */
function embedded(id) {
  const element = document.getElementById(id);
  if (!element) {
    throw new Error(`no ${id}`);
  }
  return JSON.parse(element.textContent ?? "");
}

/** One log: the present, or a timeline. What it shares with the log it branches off is kept there only. */
class Log {
  /** @param {LogFacts} facts @param {number} index @param {Log[]} before */
  constructor(facts, index, before) {
    this.index = index;
    this.facts = facts;
    /** @type {Log | null} */
    this.parent = facts.from ? before[facts.from.log] : null;
    const { messages, checkpoints, usages } = facts.from ?? { messages: 0, checkpoints: 0, usages: 0 };
    /** Messages it has in common with its parent. */
    this.shared = messages;
    /** @type {Checkpoint[]} */
    this.checkpoints = [...(this.parent?.checkpoints.slice(0, checkpoints) ?? []), ...facts.checkpoints];
    /** @type {[number, number][]} */
    this.usages = [...(this.parent?.usages.slice(0, usages) ?? []), ...facts.usages];
    this.numbers = this.#numbers(messages);
    this.name = facts.id === null ? WORDS.present : WORDS.timeline(/\d+$/.exec(facts.id)?.[0] ?? facts.id);
  }

  get messages() {
    return this.numbers.length;
  }

  /** Where the slider can stand: at each checkpoint, and at the end. */
  get steps() {
    return this.checkpoints.length + 1;
  }

  /** @param {number} shared */
  #numbers(shared) {
    const own = this.facts.runs.reduce((sum, [, count]) => sum + count, 0);
    const numbers = new Uint32Array(shared + own);
    let at = shared;
    if (this.parent) {
      numbers.set(this.parent.numbers.subarray(0, shared));
    }
    for (const [start, count] of this.facts.runs) {
      for (let i = 0; i < count; i++) {
        numbers[at++] = start + i;
      }
    }
    return numbers;
  }
}

/** A state of the conversation: at a checkpoint of a log, or at its end. */
class Point {
  /** @param {Log} log @param {number} step */
  constructor(log, step) {
    this.log = log;
    this.step = Math.max(0, Math.min(step, log.steps - 1));
    this.checkpoint = log.checkpoints[this.step] ?? null;
    this.messages = this.checkpoint ? this.checkpoint.messages : log.messages;
    const { tokens } = this.checkpoint ?? log.facts;
    /** Null: there are messages, and nobody counted their tokens. @type {number | null} */
    this.tokens = tokens === 0 && this.messages > 0 ? null : tokens;
  }

  get name() {
    const { log, checkpoint } = this;
    return checkpoint ? WORDS.pointAt(WORDS.checkpoint(checkpoint.id, checkpoint.label), log.name) : WORDS.pointEnd(log.name);
  }

  /** The last step at which there are at most that many messages, or the first one. @param {Log} log @param {number} messages */
  static nearest(log, messages) {
    const before = firstWith(log, messages) - 1;
    const after = Math.min(before + 1, log.steps - 1);
    const distance = (/** @type {number} */ step) => Math.abs(new Point(log, step).messages - messages);
    return new Point(log, before >= 0 && distance(before) < distance(after) ? before : after);
  }
}

/** The first step of a log with at least that many messages. @param {Log} log @param {number} messages */
function firstWith(log, messages) {
  let low = 0;
  let high = log.steps - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (log.checkpoints[middle].messages < messages) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/** Messages at the beginning of both that are the same. @param {Point} one @param {Point} other */
function common(one, other) {
  const end = Math.min(one.messages, other.messages);
  let same = 0;
  while (same < end && one.log.numbers[same] === other.log.numbers[same]) {
    same++;
  }
  return same;
}

class Session {
  constructor() {
    /** @type {Facts} */
    this.facts = embedded("session");
    /** @type {Log[]} */
    this.logs = [];
    for (const [index, log] of this.facts.logs.entries()) {
      this.logs.push(new Log(log, index, this.logs));
    }
    /** @type {Map<number, Message[]>} */
    this.blocks = new Map();
  }

  get present() {
    return this.logs[0];
  }

  /** The message `index` of a log. @param {Log} log @param {number} index @returns {Message} */
  message(log, index) {
    const number = log.numbers[index];
    return this.#block(Math.floor(number / this.facts.block))[number % this.facts.block];
  }

  /** @param {number} number */
  #block(number) {
    const known = this.blocks.get(number);
    if (known) {
      return known;
    }
    if (this.blocks.size >= BLOCKS_KEPT) {
      const [oldest] = this.blocks.keys();
      this.blocks.delete(oldest);
    }
    const block = embedded(`messages-${number}`);
    this.blocks.set(number, block);
    return block;
  }
}
