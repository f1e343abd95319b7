/** The session as it stands in a page that is a file: its logs, and the messages they are made of. */

import type { Message } from "timeleap-client";
import type { ShownFile } from "../../src/features/page/wire.js";

export interface Mark {
  readonly id: number;
  readonly label?: string;
  readonly createdAt?: string;
  readonly messages: number;
  readonly tokens: number;
  /** Kind and path of files that changed after it. */
  readonly files?: readonly string[];
  readonly changed?: number;
  readonly happened?: string;
  readonly failed?: number;
}

interface LogFacts {
  readonly id: string | null;
  readonly reason: string | null;
  readonly createdAt: string | null;
  readonly from: { readonly log: number; readonly messages: number; readonly checkpoints: number; readonly usages: number } | null;
  readonly runs: readonly (readonly [number, number])[];
  readonly checkpoints: readonly Mark[];
  readonly usages: readonly (readonly [number, number])[];
  readonly tokens: number;
  readonly systemPrompt: number | null;
}

interface Facts {
  readonly session: { readonly id: string; readonly title: string | null };
  readonly block: number;
  readonly prompts: readonly string[];
  readonly logs: readonly LogFacts[];
  readonly losses: readonly string[];
}

/** Blocks of messages that are kept parsed. */
const KEPT = 64;

/** One log: the present, or a timeline. What it shares with the log it branches off is kept there only. */
export class Log {
  /** Numbers of its messages: the same number is the same message. */
  readonly numbers: Uint32Array;
  readonly marks: readonly Mark[];
  readonly usages: readonly (readonly [number, number])[];

  constructor(
    readonly facts: LogFacts,
    before: readonly Log[],
  ) {
    const parent = facts.from ? before[facts.from.log] : undefined;
    const shared = facts.from ?? { messages: 0, checkpoints: 0, usages: 0 };
    this.marks = [...(parent?.marks.slice(0, shared.checkpoints) ?? []), ...facts.checkpoints];
    this.usages = [...(parent?.usages.slice(0, shared.usages) ?? []), ...facts.usages];
    this.numbers = new Uint32Array(shared.messages + facts.runs.reduce((sum, [, count]) => sum + count, 0));
    this.numbers.set(parent?.numbers.subarray(0, shared.messages) ?? []);
    let at = shared.messages;
    for (const [start, count] of facts.runs) {
      for (let next = 0; next < count; next += 1) {
        this.numbers[at] = start + next;
        at += 1;
      }
    }
  }

  get messages(): number {
    return this.numbers.length;
  }

  get id(): string | undefined {
    return this.facts.id ?? undefined;
  }
}

export class Exhibit {
  readonly facts = embedded("session") as Facts;
  readonly logs: readonly Log[];
  private readonly blocks = new Map<number, readonly (Message | null)[]>();

  constructor() {
    const logs: Log[] = [];
    for (const log of this.facts.logs) {
      logs.push(new Log(log, logs));
    }
    this.logs = logs;
  }

  /** The live one where there is none of that id. */
  log(id: string | undefined): Log {
    const found = this.logs.find((log) => log.id === id) ?? this.logs[0];
    if (!found) {
      throw new Error("no log");
    }
    return found;
  }

  /** Null: it cannot be read. */
  message({ numbers }: Log, index: number): Message | null {
    const number = numbers[index] ?? 0;
    const at = Math.floor(number / this.facts.block);
    let block = this.blocks.get(at);
    if (!block) {
      block = embedded(`messages-${at}`) as readonly (Message | null)[];
      const [oldest] = this.blocks.keys();
      if (this.blocks.size >= KEPT && oldest !== undefined) {
        this.blocks.delete(oldest);
      }
      this.blocks.set(at, block);
    }
    return block[number % this.facts.block] ?? null;
  }
}

/** Messages at the beginning of both that are the same. */
export function common(one: Log, other: Log): number {
  const end = Math.min(one.messages, other.messages);
  let same = 0;
  while (same < end && one.numbers[same] === other.numbers[same]) {
    same += 1;
  }
  return same;
}

/** Written by the server as "kind: path". */
export function fileOf(text: string): ShownFile {
  const [kind = "modified", ...path] = text.split(": ");
  const known = (["added", "modified", "deleted", "type", "mode"] as const).find((one) => one === kind);
  return { kind: known ?? "modified", path: path.join(": ") };
}

function embedded(id: string): unknown {
  const element = document.getElementById(id);
  if (!element) {
    throw new Error(`no ${id}`);
  }
  return JSON.parse(element.textContent) as unknown;
}
