/**
 * A server that does as it is told: `node fake-server.js DIR [RULES] [STARTS]`.
 *
 * It keeps what it was asked in `DIR/journal.jsonl` and what took effect in `DIR/effects.jsonl`, so that both outlive it.
 * RULES is a JSON list of `[method, nth, what]`: at the nth request of that method (counted over restarts, 0: at each) it does
 * something unusual. STARTS is a list of what to do at the first, second ... start.
 */

import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";

interface Message {
  id?: number | string | null;
  method?: string;
  params?: { [member: string]: unknown };
  result?: unknown;
  error?: unknown;
}

const home = process.argv[2] ?? ".";
const rules = JSON.parse(process.argv[3] ?? "[]") as [string, number, string][];
const starts = JSON.parse(process.argv[4] ?? "[]") as string[];
const asked = new Map<string, (answer: Message) => void>();
const held: Message[] = [];

function lines(name: string): unknown[] {
  const file = join(home, name);
  return existsSync(file) ? readFileSync(file, "utf8").trimEnd().split("\n").map((line) => JSON.parse(line) as unknown) : [];
}

function note(name: string, value: unknown): void {
  appendFileSync(join(home, name), `${JSON.stringify(value)}\n`);
}

function write(message: Message): void {
  process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
}

function refuse(message: Message, code: number, kind: string, text: string, retryable = false): void {
  write({ id: message.id ?? null, error: { code, message: text, data: { kind, retryable, extra: 7 } } });
}

function die(code = 9): never {
  process.stderr.write("the fake server dies as told\n");
  process.exit(code);
}

/** Makes it happen, once for a request id. */
function effect(message: Message): object {
  const known = (lines("effects.jsonl") as Message[]).some((done) => done.params?.["requestId"] === message.params?.["requestId"]);
  if (!known) {
    note("effects.jsonl", message);
  }
  const head = String(lines("effects.jsonl").length);
  const cause = { requestId: message.params?.["requestId"] };
  const firstIndex = Number(head) - 1;
  write({
    method: "context/didChange",
    params: { sessionId: message.params?.["sessionId"], head, kind: "messagesAppended", firstIndex, count: 1, cause },
  });
  return known ? { head, duplicate: true } : { head };
}

function wait(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

/** Does `what`; returns whether the request is dealt with. */
async function unusual(what: string, message: Message): Promise<boolean> {
  switch (what) {
    case "die":
      return die();
    case "effectAndDie":
      effect(message);
      return die();
    case "drop":
      write({ id: null, error: { code: 4012, message: "this connection does not read", data: { kind: "overloaded", retryable: true } } });
      process.exit(3);
      break;
    case "silent":
      return true;
    case "hold":
      held.push(message); // answered when it is cancelled
      return true;
    case "locked":
      refuse(message, 4003, "sessionLocked", "the owner does not answer", true);
      return true;
    case "readOnly":
      refuse(message, 4004, "readOnly", "opened to look");
      return true;
    case "noData":
      write({ id: message.id ?? null, error: { code: 4002, message: "no data" } });
      return true;
    case "garbage":
      process.stdout.write("print() in a library\n");
      return true;
    case "closeOutput":
      process.stdout.end();
      setInterval(() => undefined, 1000);
      return true;
    case "work":
    case "workForLong": {
      const pause = what === "work" ? 0 : 1_500;
      for (const percentage of [10, 50, 90]) {
        await wait(pause);
        write({ method: "$/progress", params: { token: message.params?.["workDoneToken"], value: { kind: "report", percentage } } });
      }
      await wait(pause);
      return false;
    }
    case "ask":
    case "askAndCancel": {
      const id = `q${asked.size + 1}`;
      const params = { sessionId: "s", systemPrompt: "summarise", prompt: { role: "user", content: "long" } };
      const answer = new Promise<Message>((resolve) => asked.set(id, resolve));
      write({ id, method: "context/summarize", params });
      if (what === "askAndCancel") {
        await wait(50);
        write({ method: "$/cancelRequest", params: { id } });
      }
      const { result, error } = await answer;
      write({ id: message.id ?? null, result: { answered: result ?? error } });
      return true;
    }
    default:
      throw new Error(what);
  }
  return false;
}

function answer(message: Message): unknown {
  const params = message.params ?? {};
  switch (message.method) {
    case "initialize": {
      const timeleap = { protocolVersion: 1, methods: {}, limits: { maxFrameBytes: 100_000 }, params };
      if (starts[lines("starts").length - 1] === "otherVersion") {
        return { capabilities: { experimental: { timeleap: { ...timeleap, protocolVersion: 2 } } } };
      }
      return { serverInfo: { name: "timeleap", version: "0" }, capabilities: { experimental: { timeleap } } };
    }
    case "session/open":
      return { sessionId: params["sessionId"] ?? "generated", head: String(lines("effects.jsonl").length), access: "owner" };
    case "context/appendMessage":
    case "session/setTitle":
      return effect(message);
    case "shutdown":
      return null;
    default:
      return { echo: params, pid: process.pid };
  }
}

async function take(message: Message): Promise<void> {
  note("journal.jsonl", message);
  const { id, method } = message;
  if (method === undefined) {
    asked.get(String(id))?.(message);
  } else if (method === "$/cancelRequest") {
    const index = held.findIndex((request) => request.id === message.params?.["id"]);
    for (const request of held.splice(index, index < 0 ? 0 : 1)) {
      write({ id: request.id ?? null, result: answer(request) });
    }
  } else if (method === "exit") {
    process.exit(starts[lines("starts").length - 1] === "badExit" ? 1 : 0);
  } else if (id !== undefined) {
    const nth = (lines("journal.jsonl") as Message[]).filter((entry) => entry.method === method).length;
    for (const [name, when, what] of rules) {
      if (name === method && (when === 0 || when === nth) && (await unusual(what, message))) {
        return;
      }
    }
    write({ id, result: answer(message) });
  }
}

note("starts", process.pid);
const start = starts[lines("starts").length - 1];
process.stderr.write("a line of the log\n");
if (start === "die") {
  die();
}
if (start === "hang") {
  setInterval(() => undefined, 1000);
} else {
  const input = createInterface({ input: process.stdin });
  input.on("line", (line) => void take(JSON.parse(line) as Message));
  input.on("close", () => {
    note("ends", "end of input");
    process.exit(0);
  });
}
