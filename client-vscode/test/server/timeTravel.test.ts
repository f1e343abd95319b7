import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { SAMPLE, seed, turns } from "../support/data.js";
import { start, type Row, type Running } from "../support/extension.js";
import { commands, user, window } from "../support/vscode.js";
import { agent, branches, labels, open, press } from "./support.js";
import { overPage } from "./fakePage.js";

let running: Running;
let folder: string;

beforeEach(async () => {
  user.reset();
  running = start();
  folder = seed(running.home, "chat", turns(5));
  await open("chat");
});

afterEach(() => running.stop());

const log = (): string => readFileSync(join(folder, "context.jsonl"), "utf8");
const newest = async (): Promise<Row> => (await running.rows("checkpoints")).find(({ item }) => item.contextValue === "checkpoint")!;

test("checkpoints come newest first, with what the messages in them came to", async () => {
  const rows = await running.rows("checkpoints");
  expect(labels(rows)).toEqual(["question 4", "question 3", "question 2", "question 1", "question 0"]);
  expect(rows[0]!.item.accessibilityInformation!.label).toBe("Checkpoint 4: question 4, +2 messages, +100 tokens");
  expect(rows[4]!.item.contextValue).toBe("checkpoint");
});

test("a checkpoint expands to its messages", async () => {
  const rows = await running.rows("checkpoints");
  expect(labels(await running.rows("checkpoints", rows[1]!.node))).toEqual(["question 3", "answer 3"]);
});

test("Restore is done at once, says what went, and what was set aside is brought back to the byte", async () => {
  const before = log();
  const rows = await running.rows("checkpoints");
  await commands.executeCommand("timeleap.restore", rows[2]!.node);
  const message = "Restored to before “question 2”: 6 messages, 3 checkpoints, 300 tokens set aside.";
  expect(user.said).toMatchObject([{ kind: "information", modal: false, message, buttons: ["Undo"] }]);
  expect(log()).not.toContain("question 2");
  expect(labels(await running.rows("checkpoints")).slice(-2)).toEqual(["question 1", "question 0"]);

  const [timeline] = await branches(running);
  // Named by what went, which is all that it shows: the shared past is in the present.
  expect(timeline).toMatchObject({ label: "6 messages: question 2 … answer 4", description: "now · Before a restore" });
  expect(timeline!.item.accessibilityInformation!.label).toBe("Before a restore: 6 messages: question 2 … answer 4, now");
  expect(labels(await running.rows("checkpoints", timeline!.node))).toEqual(["question 4", "question 3", "question 2"]);

  await commands.executeCommand("timeleap.restoreTimeline", timeline!.node);
  expect(user.said.filter(({ modal }) => modal)).toEqual([]);
  expect(log()).toBe(before);
  expect(labels(await running.rows("checkpoints"))[0]).toBe("question 4");
});

test("the notification's Undo takes Restore back, also without a question", async () => {
  const before = log();
  press("Undo");
  await commands.executeCommand("timeleap.restore", (await newest()).node);
  await vi.waitFor(() => expect(log()).toBe(before), { timeout: 10_000 });
  expect(user.said.filter(({ modal }) => modal)).toEqual([]);
});

test("where a setting asks for it Restore, Undo and Redo ask first, and Escape changes nothing", async () => {
  const before = log();
  user.settings.set("timeleap.restore.ask", true);
  await commands.executeCommand("timeleap.restore", (await newest()).node);
  expect(log()).toBe(before);
  expect(user.said).toMatchObject([{ modal: true, message: "Restore to before “question 4”?", buttons: ["Restore"] }]);
  expect(user.said[0]!.detail).toContain("2 messages, 1 checkpoint, 100 tokens");
  press("Restore");
  await commands.executeCommand("timeleap.restore", (await newest()).node);
  const after = log();
  press();
  await commands.executeCommand("timeleap.undo");
  expect(log()).toBe(after);
  expect(user.said.at(-1)).toMatchObject({ modal: true, message: "Undo → 10 messages, 500 tokens", buttons: ["Undo"] });
});

test("the toast's Undo brings back what went, also when something was written since: that is set aside, and an Undo away", async () => {
  let undo = (): void => undefined;
  const later = new Promise<void>((resolve) => (undo = resolve));
  const { showInformationMessage } = window;
  window.showInformationMessage = (async (message: string, button?: string) => {
    await later;
    return message.startsWith("Restored to before") ? button : undefined;
  }) as typeof showInformationMessage;
  onTestFinished(() => void (window.showInformationMessage = showInformationMessage));
  await commands.executeCommand("timeleap.restore", (await newest()).node);
  await running.api.shownSession!.append({ role: "user", content: "since then" });
  undo();
  await vi.waitFor(() => expect(log()).toContain("question 4"), { timeout: 10_000 });
  expect(log()).not.toContain("since then");
  await commands.executeCommand("timeleap.undo");
  expect(log()).toContain("since then");
});

test("a change between the question and the answer stops the revert, and is said", async () => {
  const row = await newest();
  user.settings.set("timeleap.restore.ask", true);
  user.answer = (said) => (said.buttons.includes("Restore") ? "Restore" : undefined);
  const shown = running.api.shownSession!;
  const question = user.answer;
  let append: Promise<unknown> | undefined;
  user.answer = (said) => {
    append ??= shown.append({ role: "user", content: "meanwhile" });
    return question(said);
  };
  await commands.executeCommand("timeleap.restore", row.node);
  await append;
  expect(log()).toContain("meanwhile");
  expect(log()).toContain("question 4");
  expect(user.said.at(-1)).toMatchObject({ kind: "error" });
  expect(user.said.at(-1)!.message).toContain("changed meanwhile");
});

test("a row whose checkpoint is gone is refused in words, and the tree is fresh afterwards", async () => {
  const stale = await newest();
  await commands.executeCommand("timeleap.restore", stale.node);
  await commands.executeCommand("timeleap.restore", stale.node);
  expect(user.said.at(-1)!.message).toContain("changed meanwhile");
  expect(labels(await running.rows("checkpoints"))[0]).toBe("question 3");
});

test("what the present has wholly, or Redo brings back, is no row", async () => {
  const rows = await running.rows("checkpoints");
  await commands.executeCommand("timeleap.restore", rows[2]!.node); // 4 messages are left
  await running.api.shownSession!.append({ role: "user", content: "another way" });
  await running.api.shownSession!.checkpoint();
  const empty = await vi.waitFor(async () => {
    const steps = await running.rows("checkpoints", (await newest()).node); // nothing was said after it: it is a step of the turn
    return steps.find(({ label }) => label === "Checkpoint #2") ?? expect.unreachable(labels(steps).join("; "));
  });
  await commands.executeCommand("timeleap.restore", empty.node); // only a checkpoint goes
  expect(labels(await branches(running))).toEqual(["6 messages: question 2 … answer 4"]);
  await commands.executeCommand("timeleap.undo");
  await commands.executeCommand("timeleap.undo");
  expect(running.api.shownSession!.state.context).toMatchObject({ messageCount: 10, canRedo: 2 });
  await branches(running, 0);
  await running.api.shownSession!.append({ role: "user", content: "a third way" }); // nothing can be done again now
  // With the checkpoint that went, and without it.
  expect(await branches(running, 2)).toMatchObject([["#3", "Before a restore"], ["#2", "Before a restore"]].map(([number, reason]) => ({ label: `${number} 1 message: another way`, description: `now · ${reason}` })));
});

test("timelines with the same messages and checkpoints are one row", async () => {
  await commands.executeCommand("timeleap.restore", (await newest()).node);
  await running.api.shownSession!.undo();
  await running.api.shownSession!.setTokenCount(7_000); // so that the log is another one
  await commands.executeCommand("timeleap.restore", (await newest()).node);
  expect(readdirSync(folder).filter((name) => /^context_\d+\.jsonl$/.test(name))).toHaveLength(3);
  expect(labels(await branches(running))).toEqual(["2 messages: question 4 … answer 4"]);
});

test("a branch stands where it left, at the top or inside the turn, and opens to what it alone has", async () => {
  const session = running.api.shownSession!;
  const call = (id: string) => ({ role: "assistant", content: "", tool_calls: [{ type: "function" as const, id, function: { name: "run", arguments: JSON.stringify({ command: `pytest ${id}` }) } }] });
  const step = async (id: string) => {
    await session.checkpoint();
    await session.append(call(id), { role: "tool", tool_call_id: id, content: "done" });
  };
  for (const id of ["a", "b", "c"]) {
    await step(id);
  }
  const turn = async (): Promise<Row> => (await running.rows("checkpoints")).find(({ item }) => item.contextValue === "checkpoint")!;
  const inside = async (): Promise<string[]> => labels(await running.rows("checkpoints", (await turn()).node));
  await vi.waitFor(async () => expect(await inside()).toEqual(["pytest c", "pytest b", "pytest a", "question 4", "answer 4"]), { timeout: 10_000 });
  expect(await turn()).toMatchObject({ label: "question 4", item: { collapsibleState: 2, accessibilityInformation: { label: expect.stringContaining("+8 messages") as string } } });
  expect(labels(await running.rows("checkpoints"))).toEqual(["question 4", "question 3", "question 2", "question 1", "question 0"]);

  const [, b] = await running.rows("checkpoints", (await turn()).node);
  await commands.executeCommand("timeleap.restore", b!.node);
  const [branch] = await branches(running);
  expect(labels(await running.rows("checkpoints"))).toEqual([branch!.label, "question 4", "question 3", "question 2", "question 1", "question 0"]);
  expect(labels(await running.rows("checkpoints", branch!.node))).toEqual(["pytest c", "pytest b"]);
  await step("d");
  await vi.waitFor(async () => expect(await inside()).toEqual(["pytest d", branch!.label, "pytest a", "question 4", "answer 4"]), { timeout: 10_000 });
});

test("Undo and Redo are done at once, also where something was written since; each toast takes the place of the one before", async () => {
  const logs = [log()];
  await commands.executeCommand("timeleap.restore", (await newest()).node);
  logs.push(log());
  user.said = [];
  press();
  await commands.executeCommand("timeleap.undo");
  expect(log()).toBe(logs[0]);
  await commands.executeCommand("timeleap.redo");
  expect(log()).toBe(logs[1]);
  expect(user.said.map(({ modal, buttons }) => [modal, buttons])).toEqual([[false, ["Redo"]], [false, ["Undo"]]]);

  await running.api.shownSession!.append({ role: "user", content: "since then" });
  await commands.executeCommand("timeleap.undo");
  expect(log()).not.toContain("since then");
  await commands.executeCommand("timeleap.redo");
  expect(log()).toContain("since then");
});

test("the status bar says how far one can go back and forth, and what the next step each way makes of the conversation", async () => {
  const item = (): { text: string; visible: boolean; tooltip?: unknown } => user.statusBar.find(({ id }) => id === "timeleap.undo")!;
  expect(item().visible).toBe(false);
  await commands.executeCommand("timeleap.restore", (await newest()).node);
  await vi.waitFor(() => expect(item()).toMatchObject({ visible: true, text: "$(discard) 1 $(redo) 0", tooltip: "Undo → 10 messages, 500 tokens" }), { timeout: 10_000 });
  await commands.executeCommand("timeleap.undo");
  await vi.waitFor(() => expect(item()).toMatchObject({ text: "$(discard) 0 $(redo) 1", tooltip: "Redo → 8 messages, 400 tokens" }), { timeout: 10_000 });
});

test("clear keeps the log as a timeline", async () => {
  await commands.executeCommand("timeleap.clear");
  expect(log()).not.toContain("question");
  expect(readdirSync(folder).filter((name) => /^context_\d+\.jsonl$/.test(name))).toHaveLength(1);
});

test("undo and redo go back and forth step by step; what is written since ends the redoing", async () => {
  const logs = [log()];
  await commands.executeCommand("timeleap.restore", (await newest()).node);
  logs.push(log());
  await commands.executeCommand("timeleap.clear");
  logs.push(log());
  expect(user.context.get("timeleap.canUndo")).toBe(true);
  expect(user.context.get("timeleap.canRedo")).toBe(false);

  press();
  await commands.executeCommand("timeleap.undo");
  expect(log()).toBe(logs[1]);
  await commands.executeCommand("timeleap.undo");
  expect(log()).toBe(logs[0]);
  expect(user.said.at(-1)).toMatchObject({ kind: "information", modal: false, buttons: ["Redo"] });
  expect(user.context.get("timeleap.canUndo")).toBe(false);
  expect(labels(await running.rows("checkpoints"))[0]).toBe("question 4");
  await commands.executeCommand("timeleap.undo");
  expect(user.said.at(-1)).toMatchObject({ kind: "warning", message: expect.stringContaining("nothing for “Undo”") as string });

  await commands.executeCommand("timeleap.redo");
  expect(log()).toBe(logs[1]);
  expect(labels(await running.rows("checkpoints"))).toContain("question 3");
  expect(user.context.get("timeleap.canRedo")).toBe(true);
  await running.api.shownSession!.append({ role: "user", content: "another way" });
  await vi.waitFor(() => expect(user.context.get("timeleap.canRedo")).toBe(false), { timeout: 10_000 });
  await commands.executeCommand("timeleap.redo");
  expect(user.said.at(-1)).toMatchObject({ kind: "warning", message: expect.stringContaining("nothing for “Redo”") as string });
  expect(log()).toContain("another way");
});

test("undo of another window shows here, and can be redone here", async () => {
  const before = log();
  await commands.executeCommand("timeleap.restore", (await newest()).node);
  const after = log();
  const other = await agent(running);
  await other.request("session/open", { sessionId: "chat" });
  await other.request("context/undo", { sessionId: "chat" });
  await vi.waitFor(() => expect(user.context.get("timeleap.canRedo")).toBe(true), { timeout: 10_000 });
  expect(log()).toBe(before);
  await vi.waitFor(async () => expect(labels(await running.rows("checkpoints"))[0]).toBe("question 4"), { timeout: 10_000 });
  await commands.executeCommand("timeleap.redo");
  expect(log()).toBe(after);
  await other.request("context/undo", { sessionId: "chat" });
  await other.request("context/redo", { sessionId: "chat" });
  await vi.waitFor(async () => expect(labels(await running.rows("checkpoints"))).toEqual([expect.stringContaining("2 messages: "), "question 3", "question 2", "question 1", "question 0"]), { timeout: 10_000 });
  await other.shutdown();
});

test("the log goes back to before a message; one of a timeline is refused", async () => {
  const before = log();
  const rows = await running.rows("checkpoints");
  const [, message] = await running.rows("checkpoints", rows[1]!.node);
  expect(message).toMatchObject({ label: "answer 3" });
  await commands.executeCommand("timeleap.restore", message!.node);
  expect(user.said[0]!.message).toMatch(/^Restored to before “answer 3”: 3 messages, 1 checkpoint/);
  expect(log()).toContain("question 3");
  expect(log()).not.toContain("answer 3");
  const [timeline] = await branches(running);
  const [old] = await running.rows("checkpoints", timeline!.node);
  const [earlier] = await running.rows("checkpoints", old!.node);
  expect(earlier!.item.contextValue).toBe("timelineMessage");
  await commands.executeCommand("timeleap.restore", earlier!.node);
  expect(user.said.at(-1)).toMatchObject({ kind: "warning", message: expect.stringContaining("not in the present conversation") as string });
  await commands.executeCommand("timeleap.undo");
  expect(log()).toBe(before);
});

test("a change between the question and the answer stops an undo", async () => {
  user.settings.set("timeleap.restore.ask", true);
  press("Clear Conversation");
  await commands.executeCommand("timeleap.clear");
  const shown = running.api.shownSession!;
  let append: Promise<unknown> | undefined;
  user.answer = ({ modal, buttons }) => {
    append ??= shown.append({ role: "user", content: "meanwhile" });
    return modal ? buttons[0] : undefined;
  };
  await commands.executeCommand("timeleap.undo");
  await append;
  expect(log()).toContain("meanwhile");
  expect(user.said.at(-1)!.message).toContain("changed meanwhile");
});

test("from the palette a timeline is chosen from a list", async () => {
  const before = log();
  await commands.executeCommand("timeleap.clear");
  user.pick = (items) => items.find((item) => (item as { label: string }).label.startsWith("Before clearing"));
  await commands.executeCommand("timeleap.restoreTimeline");
  expect(log()).toBe(before);
});

test("a compaction that is cancelled changes nothing and says nothing", async () => {
  const before = log();
  user.input = () => "";
  user.cancels = true;
  press("Compact");
  await commands.executeCommand("timeleap.compact");
  expect(log()).toBe(before);
  expect(user.said).toEqual([]);
});

test("the summary can be read in full before the compaction is done", async () => {
  user.input = () => "";
  user.answer = ({ buttons, modal }) => (modal ? buttons[1] : buttons.find((button) => button === "Compact"));
  await commands.executeCommand("timeleap.compact");
  const { blocks = [] } = overPage().sheet ?? {};
  expect(blocks).toContainEqual(expect.objectContaining({ kind: "table", head: ["", "Found", "Kept", "Lost"] }));
  const { text } = blocks.at(-1) as { text: string };
  expect(text.length).toBeGreaterThan(10);
  expect(log()).toContain(JSON.stringify(text.split("\n")[0]).slice(1, -1));
});

test("undo without a timeline says that there is nothing to undo", async () => {
  await commands.executeCommand("timeleap.undo");
  expect(user.said).toMatchObject([{ kind: "warning", modal: false }]);
});

test("compaction shows a dry run, does what was shown, and can be undone", async () => {
  const before = log();
  user.input = () => "keep question 0";
  press("Compact", "Undo");
  await commands.executeCommand("timeleap.compact");
  const asked = user.said.find(({ modal }) => modal)!;
  expect(asked.message).toMatch(/8 messages become one summary, 2 messages stay/);
  await vi.waitFor(() => expect(log()).toBe(before), { timeout: 10_000 });
  expect(readFileSync(join(folder, "context_2.jsonl"), "utf8")).toContain("Previous context has been compacted");
});

test("a fork has the history up to and including the checkpoint and is shown", async () => {
  const rows = await running.rows("checkpoints");
  user.input = () => "a branch";
  await commands.executeCommand("timeleap.fork", rows[2]!.node);
  expect(labels(await running.rows("checkpoints")).slice(0, 2)).toEqual(["question 1", "question 0"]);
  const [turn] = await running.rows("checkpoints");
  expect(labels(await running.rows("checkpoints", turn!.node))).toContain("Checkpoint #2");
  expect(running.api.shownSession!.state.title).toBe("a branch");
  expect(log()).toContain("question 4");
});

test("a real session: calls and results are pairs", async () => {
  seed(running.home, "real", SAMPLE);
  await open("real");
  const turns = await running.rows("checkpoints");
  const inside = await Promise.all(turns.map(({ node }) => running.rows("checkpoints", node)));
  const rows = [...turns, ...inside.flat()].filter(({ item }) => item.contextValue === "checkpoint");
  expect(rows.length).toBeGreaterThan(3);
  const messages = (await Promise.all(rows.map(({ node }) => running.rows("checkpoints", node)))).flat();
  expect(messages.length).toBeGreaterThan(rows.length);
});
