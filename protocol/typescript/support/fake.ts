/** How tests start clients of the fake server, and look at what it was told. */

import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { TimeleapClient, type ClientOptions, type ServerCommand } from "../src/index.js";

export type Rule = readonly [method: string, nth: number, what: string];
export type Params = { [member: string]: unknown };

export const QUICK = { limit: 3, delay: 10, longest: 50 } as const;
const SCRIPT = join(__dirname, "fake-server.js");

/** One fake server's home, over all its restarts. */
export class Fake {
  readonly home = mkdtempSync(join(tmpdir(), "timeleap-fake-"));
  readonly log: string[] = [];
  private client: TimeleapClient | undefined;

  constructor(
    private readonly rules: readonly Rule[] = [],
    private readonly starts: readonly string[] = [],
  ) {}

  get command(): ServerCommand {
    return { command: process.execPath, args: [SCRIPT, this.home, JSON.stringify(this.rules), JSON.stringify(this.starts)] };
  }

  create(options: ClientOptions = {}): TimeleapClient {
    this.client = new TimeleapClient(this.command, { onLog: (text) => this.log.push(text), restarts: QUICK, ...options });
    return this.client;
  }

  /** Runs `body` with a started client, which is disposed of at the end. */
  async run(body: (client: TimeleapClient) => Promise<void>, options: ClientOptions = {}): Promise<void> {
    const client = this.create(options);
    try {
      await client.start();
      await body(client);
    } finally {
      await this.end();
    }
  }

  async end(): Promise<void> {
    const pid = this.client?.pid;
    this.client?.dispose();
    if (pid !== undefined) {
      await until(() => !alive(pid));
    }
    rmSync(this.home, { recursive: true, force: true });
  }

  /** The messages it was sent, in order; only those of the methods if some are given. */
  told(...methods: string[]): { method?: string; params: Params }[] {
    const all = this.lines("journal.jsonl") as { method?: string; params: Params }[];
    return methods.length > 0 ? all.filter(({ method }) => methods.includes(String(method))) : all;
  }

  params(method: string): Params[] {
    return this.told(method).map(({ params }) => params);
  }

  /** The texts of what was appended, once for each effect. */
  get appended(): unknown[] {
    return (this.lines("effects.jsonl") as { params: { message: Params } }[]).map(({ params }) => params.message["content"]);
  }

  get count(): number {
    return this.lines("starts").length;
  }

  get pids(): number[] {
    return this.lines("starts") as number[];
  }

  /** How those that ended by themselves ended. */
  get ends(): unknown[] {
    return this.lines("ends");
  }

  private lines(name: string): unknown[] {
    const file = join(this.home, name);
    return existsSync(file) ? readFileSync(file, "utf8").trimEnd().split("\n").map((line) => JSON.parse(line) as unknown) : [];
  }
}

export function append(client: TimeleapClient, text: string, options = {}): Promise<{ head: string; duplicate?: true }> {
  return client.request("context/appendMessage", { sessionId: "s", message: { role: "user", content: text } }, options);
}

/** Waits until `done`; the limit is for what never comes. */
export async function until(done: () => boolean, milliseconds = 60_000): Promise<void> {
  for (let left = milliseconds; !done(); left -= 10) {
    if (left <= 0) {
      throw new Error(`it did not come about: ${done}`);
    }
    await wait(10);
  }
}

export function alive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
