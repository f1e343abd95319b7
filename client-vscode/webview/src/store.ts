/** What the page knows of the conversation: the messages around what is looked at, in blocks, and nothing else of them. */

import type { ShownMessage } from "../../src/features/page/wire.js";

/** Messages of a block, and the blocks that are kept. */
export const BLOCK = 40;
const KEPT = 24;
/** Characters of all blocks that are kept, at least one of them. */
const CHARACTERS = 8 << 20;

interface Block {
  readonly messages: ReadonlyMap<number, ShownMessage>;
  /** How many of its messages have been asked for and answered. */
  readonly end: number;
  readonly size: number;
}

export class Messages {
  private blocks = new Map<number, Block>();
  private asked = new Set<number>();

  constructor(private readonly ask: (from: number, to: number) => void) {}

  /** `null`: it cannot be read; undefined: it is not here, and has been asked for. */
  get(index: number, total: number): ShownMessage | null | undefined {
    const message = this.peek(index);
    if (message === undefined) {
      this.want(Math.floor(index / BLOCK), total);
    }
    return message;
  }

  /** The same without asking. */
  peek(index: number): ShownMessage | null | undefined {
    const number = Math.floor(index / BLOCK);
    const block = this.blocks.get(number);
    if (!block || index >= block.end) {
      return undefined;
    }
    this.blocks.delete(number); // the one used last is the last to go
    this.blocks.set(number, block);
    return block.messages.get(index) ?? null;
  }

  put(from: number, to: number, messages: readonly ShownMessage[]): void {
    const given = new Map(messages.map((message) => [message.index, message]));
    for (let number = Math.floor(from / BLOCK); number * BLOCK < to; number += 1) {
      const [start, end] = [number * BLOCK, Math.min(to, (number + 1) * BLOCK)];
      this.asked.delete(number);
      const before = this.blocks.get(number);
      // A range may begin within a block: without what is before it in the block it is of no use.
      if (from > start && (before?.end ?? start) < from) {
        continue;
      }
      const held = new Map(before?.messages);
      for (let index = Math.max(start, from); index < end; index += 1) {
        const message = given.get(index);
        if (message) {
          held.set(index, message);
        }
      }
      const size = [...held.values()].reduce((sum, message) => sum + sizeOf(message), 0);
      this.blocks.delete(number);
      this.blocks.set(number, { messages: held, end: Math.max(end, before?.end ?? 0), size });
    }
    this.trim();
  }

  /** Forgets everything from an index on. */
  cut(from: number): void {
    for (const [number, { messages, size }] of this.blocks) {
      if (number * BLOCK >= from) {
        this.blocks.delete(number);
      } else if ((number + 1) * BLOCK > from) {
        this.blocks.set(number, { messages: new Map([...messages].filter(([index]) => index < from)), end: from, size });
      }
    }
    this.asked.clear();
  }

  /** What was asked for and has not come is asked for again when it is needed. */
  askAgain(): void {
    this.asked.clear();
  }

  get held(): number {
    return this.blocks.size;
  }

  private want(number: number, total: number): void {
    if (!this.asked.has(number) && number * BLOCK < total) {
      this.asked.add(number);
      this.ask(number * BLOCK, Math.min(total, (number + 1) * BLOCK));
    }
  }

  private trim(): void {
    let size = [...this.blocks.values()].reduce((sum, block) => sum + block.size, 0);
    for (const [number, block] of this.blocks) {
      if (this.blocks.size <= 4 || (this.blocks.size <= KEPT && size <= CHARACTERS)) {
        return;
      }
      this.blocks.delete(number);
      size -= block.size;
    }
  }
}

function sizeOf({ parts, calls }: ShownMessage): number {
  const texts = parts.reduce((sum, part) => sum + (part.kind === "picture" ? part.url.length : part.text.length), 0);
  return texts + calls.reduce((sum, { given }) => sum + given.length, 0);
}
