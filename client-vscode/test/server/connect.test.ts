/** The way in: an agent of this machine is connected and disconnected, a sample is tried. */

import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { SAMPLE } from "../support/data.js";
import { start, type Running } from "../support/extension.js";
import { commands, Uri, user, workspace } from "../support/vscode.js";
import { press, sessionList } from "./support.js";

const SETTINGS = '{ "model": "opus" }\n';

let running: Running;
let machine: string;
let folder: string;

beforeEach(() => {
  user.reset();
  machine = mkdtempSync(join(tmpdir(), "machine-"));
  for (const variable of ["CODEX_HOME", "GEMINI_CLI_HOME", "KIMI_CODE_HOME"]) {
    vi.stubEnv(variable, join(machine, "not here"));
  }
  vi.stubEnv("CLAUDE_CONFIG_DIR", join(machine, ".claude"));
  folder = join(machine, "shop");
  mkdirSync(join(machine, ".claude", "projects", "-shop"), { recursive: true });
  mkdirSync(folder);
  writeFileSync(join(machine, ".claude", "settings.json"), SETTINGS);
  workspace.workspaceFolders = [{ uri: Uri.file(folder), name: "shop", index: 0 }];
});

afterEach(async () => {
  await running.stop();
  vi.unstubAllEnvs();
  rmSync(machine, { recursive: true, force: true });
});

const settings = (): string => readFileSync(join(machine, ".claude", "settings.json"), "utf8");

/** A conversation of Claude Code in that folder. */
function conversation(id: string, prompt: string, cwd: string): void {
  const uuid = (number: number): string => `00000000-0000-4000-8000-${String(number).padStart(12, "0")}`;
  const records = [
    { parentUuid: null, type: "user", uuid: uuid(0), message: { role: "user", content: prompt } },
    { parentUuid: uuid(0), type: "assistant", uuid: uuid(1), message: { role: "assistant", id: "msg_1", content: [{ type: "text", text: "Done." }] } },
  ].map((record) => ({ isSidechain: false, sessionId: id, cwd, version: "2.1.330", timestamp: "2026-01-01T00:00:00.000Z", ...record }));
  writeFileSync(join(machine, ".claude", "projects", "-shop", `${id}.jsonl`), records.map((record) => `${JSON.stringify(record)}\n`).join(""));
}

test("only agents that were used on this machine are offered", () => {
  running = start();
  const found = ["claude-code", "codex", "gemini", "kimi-code"].filter((kind) => user.context.get(`timeleap.found.${kind}`) === true);
  expect(found).toEqual(["claude-code"]);
});

test("connecting says first what it changes, then shows the newest conversation of the window's folder; disconnecting takes all of it back", async () => {
  conversation("3f2a8a52-5b1f-4c6e-9a30-5d6cf0a7b001", "Add tests", folder);
  conversation("3f2a8a52-5b1f-4c6e-9a30-5d6cf0a7b002", "Somewhere else", "/elsewhere");
  running = start();
  await commands.executeCommand("timeleap.connect", "claude-code");
  expect(user.said).toMatchObject([{ modal: true, message: "Connect Claude Code?", buttons: ["Connect", "Show the Change"], detail: expect.stringContaining(join(machine, ".claude", "settings.json")) as string }]);
  expect([settings(), running.memory.get("timeleap.connected"), running.api.shownSession]).toEqual([SETTINGS, undefined, undefined]);

  press("Show the Change");
  await commands.executeCommand("timeleap.connect", "claude-code");
  expect(user.said.at(-1)).toMatchObject({ modal: true, message: "Show the Change: Claude Code", buttons: ["Connect"], detail: expect.stringContaining("hook claude-code") as string });
  expect(settings()).toBe(SETTINGS);

  press("Connect");
  await commands.executeCommand("timeleap.connect", "claude-code");
  expect(running.api.shownSession!.state).toMatchObject({ source: { kind: "claude-code" }, workspace: pathToFileURL(folder).href });
  expect(user.executed.at(-1)?.command).toBe("timeleap.openConversation");
  expect(settings()).toContain("hook claude-code");
  expect(user.context.get("timeleap.found.claude-code")).toBe(false);

  press();
  await commands.executeCommand("timeleap.connect");
  expect(settings()).toBe(SETTINGS);
  expect(user.context.get("timeleap.found.claude-code")).toBe(true);
  expect(running.api.shownSession).toBeDefined(); // what was read stays
});

test("settings that cannot be changed keep hooks out, not conversations; the next window follows without asking", async () => {
  const commented = '{\n  // mine\n  "model": "opus",\n}\n';
  writeFileSync(join(machine, ".claude", "settings.json"), commented);
  conversation("3f2a8a52-5b1f-4c6e-9a30-5d6cf0a7b001", "Add tests", folder);
  running = start();
  press("Connect");
  await commands.executeCommand("timeleap.connect", "claude-code");
  expect(running.api.shownSession!.state.source).toMatchObject({ kind: "claude-code" });
  expect(user.said.at(-1)).toMatchObject({ kind: "warning", message: expect.stringContaining("its hooks could not be set") as string });
  expect(settings()).toBe(commented);

  await commands.executeCommand("timeleap.restartServer");
  conversation("3f2a8a52-5b1f-4c6e-9a30-5d6cf0a7b003", "Later", folder);
  const names = async (): Promise<string[]> => (await sessionList()).map(({ label }) => label);
  await vi.waitFor(async () => expect(await names()).toContain("Later"), { timeout: 30_000, interval: 200 });
});

test("an agent that has said nothing yet is connected all the same", async () => {
  running = start();
  press("Connect");
  await commands.executeCommand("timeleap.connect", "claude-code");
  expect(user.said.at(-1)).toMatchObject({ kind: "information", message: expect.stringContaining("Claude Code is connected.") as string });
  expect(running.api.shownSession).toBeUndefined();
});

test("the sample is one click, and the same one the second time", async () => {
  running = start();
  mkdirSync(join(running.extension, "dist", "sample"));
  cpSync(SAMPLE, join(running.extension, "dist", "sample", "context.jsonl"));
  await commands.executeCommand("timeleap.openSample");
  expect(running.api.shownSession!.state.title).toBe("Sample Conversation");
  expect((await running.rows("checkpoints")).length).toBeGreaterThan(1);
  await running.api.shownSession!.close();
  await commands.executeCommand("timeleap.openSample");
  expect(running.api.shownSession!.id).toBe("timeleap-sample");
  expect(user.said).toEqual([]);
});
