/** Every command, pressed where it was not meant to be: nothing hangs or is lost, and what is said is a sentence for a person. */

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { seed, turns } from "../support/data.js";
import { start, type Running } from "../support/extension.js";
import { commands, user, workspace, type Said } from "../support/vscode.js";
import { agent, open } from "./support.js";

let running: Running;
let lost: unknown[];
const lose = (error: unknown): void => void lost.push(error);

beforeEach(() => {
  user.reset();
  running = start();
  lost = [];
  process.on("unhandledRejection", lose);
});

afterEach(async () => {
  process.off("unhandledRejection", lose);
  await running.stop();
});

async function shown(): Promise<unknown> {
  seed(running.home, "chat", turns(2));
  await open("chat");
  return (await running.rows("checkpoints"))[0]!.node;
}

async function another(method: "session/delete" | "bridge/catchUp", params: object): Promise<void> {
  const client = await agent(running);
  await client.request(method, params as never);
  await client.shutdown();
}

const lock = (): { pid: number } => JSON.parse(readFileSync(join(running.home, "sessions", "chat", ".context.jsonl.lock"), "utf8")) as { pid: number };

/** Each gives a row that is, or was, in sight. */
const STATES: Readonly<Record<string, () => Promise<unknown>>> = {
  "an empty store": () => Promise.resolve(undefined),
  "no session shown": () => Promise.resolve(void seed(running.home, "chat", turns(2))),
  "a session that was closed": async () => {
    const row = await shown();
    await commands.executeCommand("timeleap.closeSession");
    return row;
  },
  "a session that another window put into the trash": async () => {
    const row = await shown();
    await another("session/delete", { sessionId: "chat" });
    return row;
  },
  "a session whose folder is gone": async () => {
    const row = await shown();
    rmSync(join(running.home, "sessions", "chat"), { recursive: true });
    return row;
  },
  "a server that is gone": async () => {
    const row = await shown();
    process.kill(lock().pid, "SIGKILL");
    return row;
  },
  "Restricted Mode": () => {
    workspace.isTrusted = false;
    return shown();
  },
  "a copy of another program's conversation": async () => {
    const id = "3f2a8a52-5b1f-4c6e-9a30-5d6cf0a7b001";
    const file = join(mkdtempSync(join(tmpdir(), "claude-")), "projects", "-shop", `${id}.jsonl`);
    mkdirSync(join(file, ".."), { recursive: true });
    const prompt = { parentUuid: null, isSidechain: false, type: "user", uuid: "00000000-0000-4000-8000-000000000000", sessionId: id, cwd: "/shop", version: "2.1.330", timestamp: "2026-01-01T00:00:00.000Z" };
    writeFileSync(file, `${JSON.stringify({ ...prompt, message: { role: "user", content: "Add tests" } })}\n`);
    await another("bridge/catchUp", { kind: "claude-code", path: file, event: "stop" });
    await open("Add tests");
    return (await running.rows("checkpoints"))[0]!.node;
  },
};

/** These start something beyond the store. */
const ELSEWHERE = ["connect", "installServer", "restartServer", "openSample", "importSession"].map((name) => `timeleap.${name}`);

/** What is wrong with the words, if anything is. */
function flaw({ message, detail = "", buttons }: Said): string | undefined {
  const text = `${message} ${detail}`;
  if (!/^[\p{Lu}“]/u.test(message) || !/[.?!)”]$|: ./u.test(message)) {
    return "is no sentence";
  }
  if (/\b(?:session|context|bridge|files|approval)\/[a-z]|invalid params|\.lock\b|Error:/u.test(text)) {
    return "has a word of the wire or of a program";
  }
  const parts = message.toLowerCase().split(/[.:;] ?/u).filter((part) => part.length > 10);
  if (parts.some((part, at) => parts.some((other, place) => place > at && other.startsWith(part)))) {
    return "says something twice";
  }
  return message === "No session is open." && buttons.length === 0 ? "has no way out" : undefined;
}

test.each(Object.keys(STATES))("every command says a sentence, or nothing, in the state of %s", async (state) => {
  const row = await STATES[state]!();
  const flaws: string[] = [];
  for (const command of (await commands.getCommands()).filter((id) => id.startsWith("timeleap.") && !ELSEWHERE.includes(id)).sort()) {
    for (const given of row === undefined ? [[]] : [[], [row, [row]]]) {
      user.said = [];
      user.input = () => "typed";
      await commands.executeCommand(command, ...given).catch((error: unknown) => flaws.push(`${command}: fails with ${String(error)}`));
      flaws.push(...user.said.flatMap((said) => (flaw(said) === undefined ? [] : [`${command} ${flaw(said)!}: ${said.message} ${said.detail ?? ""}`])));
    }
  }
  expect([...new Set(flaws)]).toEqual([]);
  expect(lost).toEqual([]);
});
