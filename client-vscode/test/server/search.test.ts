import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { seed, turns } from "../support/data.js";
import { start, type Running } from "../support/extension.js";
import { commands, user, workspace, type QuickPick } from "../support/vscode.js";
import { open, press, sessionList } from "./support.js";
import { FakePage, overPage } from "./fakePage.js";

let running: Running;

beforeEach(() => {
  user.reset();
  running = start();
});

afterEach(() => running.stop());

const found = ({ items }: QuickPick): string[] => items.map(({ label }) => label);

test("words are found in the present and in what was set aside, and shown where they stand; so do those of other sessions", async () => {
  seed(running.home, "chat", turns(6));
  seed(running.home, "other", [
    { role: "_checkpoint", id: 0 },
    { role: "assistant", content: [{ type: "think", think: "One line.\nA rare thought." }], tool_calls: [{ id: "1", function: { name: "run", arguments: '{"x": "rare"}' } }] },
  ]);
  await open("chat");
  await commands.executeCommand("timeleap.restore", (await running.rows("checkpoints"))[2]!.node);
  await commands.executeCommand("timeleap.search");
  const [pick] = user.picks as [QuickPick];
  pick.type("ANSWER");
  await vi.waitFor(() => expect(found(pick)).toHaveLength(8), { timeout: 20_000 });
  expect(found(pick).slice(0, 4)).toEqual(["Present", "answer 0", "answer 1", "answer 2"]);
  expect(found(pick)[4]).toMatch(/^Before a restore/);
  expect(found(pick).slice(5)).toEqual(["answer 3", "answer 4", "answer 5"]);
  pick.choose("answer 5");
  await vi.waitFor(() => expect(user.panels).toHaveLength(1), { timeout: 20_000 });
  const page = new FakePage();
  page.say({ kind: "ready" });
  expect(await page.next("go")).toMatchObject({ index: 11, query: "ANSWER" });
  expect(page.facts.timeline).toBeDefined();

  await commands.executeCommand("timeleap.search");
  const all = user.picks[1]!;
  all.press("Search all sessions");
  all.type("rare t");
  await vi.waitFor(() => expect(found(all)).toEqual(["other", "One line. A rare thought. run {\"x\": \"rare\"}"]), { timeout: 20_000 });
  page.forget();
  all.choose("rare");
  expect(await page.next("go")).toMatchObject({ index: 0, query: "rare t" });
  expect(page.facts.title).toBe("other");
  expect((await sessionList()).map(({ label }) => label)).toContain("other");
  expect(running.api.shownSession!.id).toBe("chat");
});

test("pins are shown, survive a compaction, and the report says what was kept", async () => {
  const folder = seed(running.home, "chat", turns(12));
  await open("chat");
  await commands.executeCommand("timeleap.managePins", { session: "chat", text: "question 0" });
  await vi.waitFor(() => expect(running.api.shownSession!.state.pins).toEqual(["question 0"]), { timeout: 10_000 });
  expect(JSON.stringify(user.statusBar.map(({ tooltip }) => tooltip))).toContain("Pinned texts");

  user.input = () => "";
  press("Compact", "What Is Kept");
  await commands.executeCommand("timeleap.compact");
  const question = user.said.find(({ modal }) => modal)!;
  expect(question.detail).toContain("Pinned texts 1");
  await vi.waitFor(() => expect(overPage().sheet?.title).toBe("What Is Kept"), { timeout: 10_000 });
  expect(JSON.stringify(overPage().sheet)).toContain("File paths");
  expect(readFileSync(join(folder, "context.jsonl"), "utf8")).toContain("question 0");
});

test("with several folders their sessions come first, folder by folder, and a new session is of the folder one chooses", async () => {
  const folders = ["one", "two"].map((name) => join(mkdtempSync(join(tmpdir(), "timeleap-folder-")), name));
  onTestFinished(() => folders.forEach((folder) => rmSync(join(folder, ".."), { recursive: true, force: true })));
  for (const [index, folder] of [...folders, "/elsewhere"].entries()) {
    const session = await running.api.openSession({ sessionId: `s${index}`, workspace: pathToFileURL(folder).href, show: false });
    await session.close();
  }
  workspace.changeFolders(...folders);
  expect((await sessionList()).map(({ label }) => label).slice(0, 6)).toEqual(["one", "s0", "two", "s1", "elsewhere", "s2"]);
  user.input = () => "of the second";
  user.pick = (items) => items.find((item) => (item as { name: string }).name === "two");
  await commands.executeCommand("timeleap.newSession");
  expect(running.api.shownSession!.state.workspace).toBe(pathToFileURL(folders[1]!).href);
  user.pick = () => undefined;
  const before = running.api.shownSession!.id;
  await commands.executeCommand("timeleap.newSession");
  expect(running.api.shownSession!.id).toBe(before);
});
