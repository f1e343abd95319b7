/** The framing of the wire: one JSON object a line. From bytes to messages and back. */

import { isObject } from "./errors.js";

export type Message = { [member: string]: unknown };

/** What a client is ready to hold of one frame: four times the server's own limit. */
export const MAX_FRAME_BYTES = 256 * 1024 * 1024;

const LINE_FEED = 0x0a;

/** What came is not the protocol; the stream cannot be used any more. */
export class BrokenStreamError extends Error {
  override readonly name = "BrokenStreamError";
}

const lines = new WeakMap<Message, string>();

/** The line that a message came in. There numbers are exact that are rounded in the message. */
export function lineOf(message: Message): string {
  return lines.get(message) ?? JSON.stringify(message);
}

/** The bytes of one message. */
export function encode(message: Message): Buffer {
  return Buffer.from(`${JSON.stringify(message)}\n`, "utf8");
}

/**
 * Takes bytes as they come, gives back the messages they complete.
 *
 * Strict: the server promises one object a line and nothing else, so anything else is a broken stream, never something
 * to skip.
 */
export class FrameReader {
  private readonly parts: Buffer[] = [];
  private size = 0;

  constructor(private readonly limit = MAX_FRAME_BYTES) {}

  /** @throws BrokenStreamError */
  feed(chunk: Buffer): Message[] {
    const messages: Message[] = [];
    let begin = 0;
    for (let end = chunk.indexOf(LINE_FEED); end >= 0; end = chunk.indexOf(LINE_FEED, begin)) {
      this.keep(chunk.subarray(begin, end));
      begin = end + 1;
      messages.push(this.decode());
    }
    this.keep(chunk.subarray(begin));
    return messages;
  }

  private keep(part: Buffer): void {
    this.size += part.length;
    if (this.size > this.limit) {
      throw new BrokenStreamError(`a frame of ${this.size} bytes or more, over the limit of ${this.limit}`);
    }
    if (part.length > 0) {
      this.parts.push(part);
    }
  }

  private decode(): Message {
    const line = Buffer.concat(this.parts.splice(0)).toString("utf8");
    this.size = 0;
    let message: unknown;
    try {
      message = JSON.parse(line);
    } catch {
      throw new BrokenStreamError(`a line that is no JSON: ${JSON.stringify(line.slice(0, 80))}`);
    }
    if (!isObject(message)) {
      throw new BrokenStreamError(`a line that is no JSON object: ${JSON.stringify(line.slice(0, 80))}`);
    }
    lines.set(message, line);
    return message;
  }
}
