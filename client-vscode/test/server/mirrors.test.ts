/** Read-only copies of other programs' conversations. */

import { appendFileSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { start, type Running } from "../support/extension.js";
import { commands, user } from "../support/vscode.js";
import { FakePage, WAIT } from "./fakePage.js";
import { agent, branches, labels, open, press } from "./support.js";

const ID = "3f2a8a52-5b1f-4c6e-9a30-5d6cf0a7b001";

let running: Running;
let file: string;

beforeEach(async () => {
  user.reset();
  running = start();
  file = join(mkdtempSync(join(tmpdir(), "claude-")), "projects", "-shop", `${ID}.jsonl`);
  mkdirSync(join(file, ".."), { recursive: true });
  writeFileSync(file, conversation(["Add tests", "Done.", "Fix the bug", "Fixed."]));
  await catchUp();
  await open("Add tests");
});

afterEach(() => running.stop());

/** As its hook does at the end of a turn. */
async function catchUp(): Promise<void> {
  const client = await agent(running);
  await client.request("bridge/catchUp", { kind: "claude-code", path: file, event: "stop" });
  await client.shutdown();
}

/** A session file as Claude Code writes it: prompts and answers in turn; `from`, `after`: the number of the first record, and of the one it answers. */
function conversation(texts: readonly string[], from = 0, after = from - 1): string {
  const uuid = (number: number): string => `00000000-0000-4000-8000-${String(number).padStart(12, "0")}`;
  const records = texts.map((text, at) => {
    const number = from + at;
    const role = number % 2 === 0 ? "user" : "assistant";
    const before = at === 0 ? after : number - 1;
    const parentUuid = before < 0 ? null : uuid(before);
    const message = role === "user" ? { role, content: text } : { role, id: `msg_${String(number)}`, content: [{ type: "text", text }] };
    return { parentUuid, isSidechain: false, type: role, uuid: uuid(number), sessionId: ID, cwd: "/shop", version: "2.1.330", timestamp: "2026-01-01T00:00:00.000Z", message };
  });
  return records.map((record) => `${JSON.stringify(record)}\n`).join("");
}

test("a copy says whose conversation it is, and never that a program does not answer", () => {
  expect(running.api.shownSession!.state.source).toMatchObject({ kind: "claude-code", path: file });
  const message = user.trees.get("timeleap.checkpoints")!.message;
  expect(message).toContain("read-only copy of a Claude Code conversation");
  expect(message).not.toMatch(/does not answer|Reload Session/);
  expect(user.said.filter(({ buttons }) => buttons.includes("Reload Session"))).toEqual([]);
});

test("going back in a copy goes on in its program, in a terminal, from that place", async () => {
  const [row] = await running.rows("checkpoints");
  const before = readFileSync(file, "utf8");
  press("Continue");
  await commands.executeCommand("timeleap.restore", row!.node, undefined);
  expect(user.said.at(-1)).toMatchObject({ modal: true, message: expect.stringContaining("Continue in Claude Code from before “Fix the bug”") as string });
  expect(user.terminals).toMatchObject([{ name: "Claude Code", shellPath: "claude", shellArgs: expect.arrayContaining(["--resume"]) as unknown, cwd: "/shop" }]);
  expect(readFileSync(file, "utf8")).toBe(before);
});

test("the menu of a row names the program, and what it names goes back there", async () => {
  expect(user.context.get("timeleap.mirror")).toBe("claude-code");
  const [row] = await running.rows("checkpoints");
  await running.rows("checkpoints", row!.node);
  const [message] = await running.rows("checkpoints", row!.node);
  press("Continue");
  for (const node of [row!.node, message!.node]) {
    await commands.executeCommand("timeleap.continueInClaudeCode", node, undefined);
    expect(user.said.at(-1)).toMatchObject({ modal: true, message: expect.stringContaining("Continue in Claude Code from before") as string });
  }
  expect(user.terminals).toHaveLength(2);
});

test("a copy whose program goes back while its page is open shows what is there now; what was left is a branch", async () => {
  await commands.executeCommand("timeleap.openConversation");
  await vi.waitFor(() => expect(user.panels).toHaveLength(1), WAIT);
  const page = new FakePage();
  page.say({ kind: "ready" });
  await page.next("usage");
  const { epoch } = page.facts;
  appendFileSync(file, conversation(["Fix it otherwise", "Fixed otherwise.", "And the docs", "Done, too."], 4, 1));
  await catchUp();
  await page.next("facts", ({ facts }) => facts.epoch > epoch && facts.messages === 6);
  await page.next("timelines", ({ timelines }) => timelines.length === 1);
  const texts = (await page.read(0, 6)).flatMap(({ parts }) => parts.map((part) => ("text" in part ? part.text : "")));
  expect(texts).toEqual(["Add tests", "Done.", "Fix it otherwise", "Fixed otherwise.", "And the docs", "Done, too."]);
  await vi.waitFor(async () => expect(labels(await running.rows("checkpoints")).filter((label) => label.includes("Fix the bug"))).toHaveLength(1), WAIT);
  await branches(running);
  expect(page.told.filter(({ kind }) => kind === "trouble").at(-1)).toMatchObject({ text: expect.stringContaining("read-only copy") as string });
});

test.each(["clear", "compact", "createCheckpoint", "undo"])("%s on a copy offers a fork, not a reload", async (command) => {
  await commands.executeCommand(`timeleap.${command}`);
  expect(user.said.at(-1)).toMatchObject({ message: expect.stringContaining("read-only copy") as string, buttons: ["Fork…"] });
});
