import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { SAMPLE, seed, turns } from "../support/data.js";
import { start, type Running } from "../support/extension.js";
import { commands, languages, user, window, workspace, type Uri } from "../support/vscode.js";
import { agent, labels, open, press } from "./support.js";

let running: Running;

beforeEach(() => {
  user.reset();
  running = start();
});

afterEach(() => running.stop());

const shown = (): string => (user.opened.at(-1) as { getText(): string }).getText();

/** Both sides of the diff editor that was opened. */
async function compared(): Promise<[string, string]> {
  const { args } = user.executed.findLast(({ command }) => command === "vscode.diff")!;
  const [left, right] = await Promise.all([args[0], args[1]].map((uri) => workspace.openTextDocument(uri as Uri)));
  return [left!.getText(), right!.getText()];
}

test("a checkpoint opens as its conversation, a message as itself, both as JSON too", async () => {
  seed(running.home, "chat", turns(3));
  await open("chat");
  const [, checkpoint] = await running.rows("checkpoints");
  await commands.executeCommand("timeleap.openDocument", checkpoint!.node);
  expect(shown()).toBe("## 2 · User\n\nquestion 1\n\n## 3 · Assistant\n\nanswer 1\n");
  await commands.executeCommand("timeleap.openJson", checkpoint!.node);
  expect(JSON.parse(shown())).toEqual([{ role: "user", content: "question 1" }, { role: "assistant", content: "answer 1" }]);
  const [, message] = await running.rows("checkpoints", checkpoint!.node);
  await commands.executeCommand("timeleap.openJson", message!.node);
  expect(JSON.parse(shown())).toEqual({ role: "assistant", content: "answer 1" });
});

test("HTML of a message is text in its document, found by a search and pinned as it was said", async () => {
  const said = "Hide it: <style>body { display: none }</style> [x]: y\n\n```html\n<style>\n```";
  seed(running.home, "chat", [{ role: "_checkpoint", id: 0 }, { role: "user", content: said }, { role: "user", content: "after" }]);
  await open("chat");
  const [checkpoint] = await running.rows("checkpoints");
  await commands.executeCommand("timeleap.openDocument", checkpoint!.node);
  const markdown = shown();
  expect(markdown).toBe(
    "## 0 · User\n\nHide it: &lt;style>body { display: none }&lt;/style> [x]&#58; y\n\n```html\n<style>\n```\n\n## 1 · User\n\nafter\n",
  );
  const { uri } = user.opened.at(-1) as { uri: Uri };
  const selected = "&lt;style>body { display: none }&lt;/style>";
  const start = markdown.indexOf(selected);
  window.activeTextEditor = {
    document: { uri, getText: () => selected, offsetAt: (at: number) => at } as never,
    selection: { start, end: start + selected.length },
  };
  await commands.executeCommand("timeleap.pinText");
  window.activeTextEditor = undefined;
  await vi.waitFor(() => expect(running.api.shownSession!.state.pins).toEqual(["<style>body { display: none }</style>"]), { timeout: 20_000 });
});

test("a call opens with its result", async () => {
  seed(running.home, "real", SAMPLE);
  await open("real");
  const rows = await running.rows("checkpoints");
  const all = (await Promise.all(rows.map(({ node }) => running.rows("checkpoints", node)))).flat();
  const call = all.find(({ item }) => item.contextValue === "toolCall")!;
  await commands.executeCommand("timeleap.openDocument", call.node);
  expect(shown()).toMatch(/\*\*Calls `\w+`\*\*[\s\S]*## \d+ · Tool/);
});

test("a checkpoint is compared with the present: what came since is on one side only", async () => {
  seed(running.home, "chat", turns(10));
  await open("chat");
  const rows = await running.rows("checkpoints");
  await commands.executeCommand("timeleap.compare", rows[1]!.node);
  const [before, present] = await compared();
  expect(present.startsWith(before)).toBe(true);
  expect(before).toContain("… 12 messages before");
  expect(before).not.toContain("question 8");
  expect(present).toContain("answer 9");
});

test("a timeline is compared with the present from where they part", async () => {
  seed(running.home, "chat", turns(6));
  await open("chat");
  press("Go Back");
  const rows = await running.rows("checkpoints");
  await commands.executeCommand("timeleap.revertTo", rows[2]!.node);
  await running.api.shownSession!.append({ role: "user", content: "another way" });
  const [timeline] = await running.rows("timelines");
  await commands.executeCommand("timeleap.compare", timeline!.node);
  const [before, present] = await compared();
  expect(before).toContain("question 5");
  expect(before).not.toContain("another way");
  expect(present).toContain("another way");
  expect(present).not.toContain("question 3");
  for (const side of [before, present]) {
    expect(side).toContain("… 2 messages before");
    expect(side).toContain("answer 2");
  }
});

test("a document of a timeline stays readable after the timeline's log was set aside", async () => {
  seed(running.home, "chat", turns(2));
  await open("chat");
  press("Clear");
  await commands.executeCommand("timeleap.clear");
  const [timeline] = await running.rows("timelines");
  const [checkpoint] = await running.rows("timelines", timeline!.node);
  expect(labels([checkpoint!])).toEqual(["question 1"]);
  await commands.executeCommand("timeleap.openDocument", checkpoint!.node);
  expect(shown()).toContain("answer 1");
  await commands.executeCommand("timeleap.openDocument", timeline!.node);
  expect(shown()).toContain("question 0");
});

test("the document of something that is gone says so", async () => {
  seed(running.home, "chat", turns(2));
  await open("chat");
  const [checkpoint] = await running.rows("checkpoints");
  press("Clear");
  await commands.executeCommand("timeleap.clear");
  await commands.executeCommand("timeleap.openDocument", checkpoint!.node);
  expect(shown()).toMatch(/^This cannot be shown: /);
});

test("a document shows so much and says that there is more", async () => {
  seed(running.home, "chat", [{ role: "_checkpoint", id: 0 }, ...Array.from({ length: 2_100 }, (_, index) => ({ role: "user", content: `m${index}` }))]);
  await open("chat");
  const [checkpoint] = await running.rows("checkpoints");
  await commands.executeCommand("timeleap.openDocument", checkpoint!.node);
  expect(shown()).toContain("m1999");
  expect(shown()).not.toContain("m2000");
  expect(shown()).toContain("Export the transcript");
});

test("10 000 checkpoints: nothing asks for more than a page", async () => {
  seed(running.home, "long", turns(10_000));
  await open("long");
  const rows = await running.rows("checkpoints");
  expect(rows).toHaveLength(101);
  expect(rows.at(-1)!.label).toBe("Show older checkpoints");
  await commands.executeCommand("timeleap.showMore", rows.at(-1)!.node);
  const more = await running.rows("checkpoints");
  expect(more).toHaveLength(201);
  expect(more[150]!.label).toBe("question 9849");
  expect(labels(await running.rows("checkpoints", more[150]!.node))).toEqual(["question 9849", "answer 9849"]);
});

const tabs = (): string[] => window.tabGroups.all.flatMap((group) => group.tabs.map(({ label }) => label));
const WAIT = { timeout: 20_000, interval: 50 };

test("what is open stays readable where the conversation goes back: from the timeline that has it, which can be brought back from there", async () => {
  seed(running.home, "chat", turns(4));
  await open("chat");
  const rows = await running.rows("checkpoints");
  await commands.executeCommand("timeleap.openDocument", rows[0]!.node);
  const [, message] = await running.rows("checkpoints", rows[3]!.node);
  await commands.executeCommand("timeleap.openDocument", message!.node);
  expect(tabs()).toEqual(["3 question 3.md", "1 Assistant answer 0.md"]);
  press("Go Back");
  await commands.executeCommand("timeleap.revertTo", rows[1]!.node);
  // The tab of the other timeline opens before the old one closes. The present has the second document still.
  const followed = new Set(["(set aside) 3 question 3.md", "1 Assistant answer 0.md"]);
  await vi.waitFor(() => expect(new Set(tabs())).toEqual(followed), WAIT);
  const aside = window.tabGroups.all[0]!.tabs.find(({ label }) => label.startsWith("(set aside)"))!.input.uri;
  const document = await workspace.openTextDocument(aside);
  expect(document.getText()).toBe("## 6 · User\n\nquestion 3\n\n## 7 · Assistant\n\nanswer 3\n");

  press("Restore");
  const [lens] = await lensesOf(aside);
  expect(lens!.title).toContain("bring it back");
  await commands.executeCommand(lens!.command, ...lens!.arguments);
  expect(running.api.shownSession!.state.context.messageCount).toBe(8);
});

test("a document whose checkpoint goes keeps what it said until it is moved; a redaction empties every document at once", async () => {
  seed(running.home, "chat", turns(2));
  await open("chat");
  const [checkpoint] = await running.rows("checkpoints");
  await commands.executeCommand("timeleap.openDocument", checkpoint!.node);
  const { uri } = user.opened.at(-1) as { uri: Uri };
  const before = shown();
  window.tabGroups.all = [];
  press("Go Back");
  await commands.executeCommand("timeleap.revertTo", checkpoint!.node);
  expect((await workspace.openTextDocument(uri)).getText()).toBe(before);
  const other = await agent(running);
  await other.request("session/open", { sessionId: "chat" });
  await other.request("session/redact", { sessionId: "chat", pattern: "question 1" });
  await other.shutdown();
  await vi.waitFor(async () => expect((await workspace.openTextDocument(uri)).getText()).not.toContain("question 1"), WAIT);
});

test("a document of a session that is no longer open here hears of a redaction, and when it is closed, nothing holds the session", async () => {
  seed(running.home, "chat", turns(2));
  await open("chat");
  const [checkpoint] = await running.rows("checkpoints");
  await commands.executeCommand("timeleap.openDocument", checkpoint!.node);
  const { uri } = user.opened.at(-1) as { uri: Uri };
  workspace.textDocuments = [{ uri }];
  await running.api.shownSession!.close();
  expect(running.api.shownSession).toBeUndefined();
  const row = async (): Promise<string> => (await running.rows("sessions", (await running.rows("sessions"))[0]!.node))[0]!.description;
  expect(await row()).not.toMatch(/open|shown|in use/);
  const other = await agent(running);
  await other.request("session/open", { sessionId: "chat" });
  await other.request("session/redact", { sessionId: "chat", pattern: "question 1" });
  await other.request("session/close", { sessionId: "chat" });
  await vi.waitFor(() => expect(user.changedDocuments).toContain(uri.toString()), WAIT);
  expect((await workspace.openTextDocument(uri)).getText()).not.toContain("question 1");
  const owner = async (): Promise<unknown> => (await other.request("session/list", {})).sessions[0]?.owner;
  expect(await owner()).toBeDefined();
  workspace.closeTextDocument(uri);
  await vi.waitFor(async () => expect(await owner()).toBeUndefined(), WAIT);
  await other.shutdown();
});

test("a summary that was opened to be read is withdrawn once something is redacted in its session", async () => {
  seed(running.home, "chat", turns(10));
  await open("chat");
  user.input = () => "";
  press("Read the Summary First");
  await commands.executeCommand("timeleap.compact");
  const { uri } = user.opened.at(-1) as { uri: Uri };
  expect(shown()).toContain("What the compaction would keep");
  const other = await agent(running);
  await other.request("session/open", { sessionId: "chat" });
  await other.request("session/redact", { sessionId: "chat", pattern: "question 1" });
  await other.shutdown();
  await vi.waitFor(() => expect(user.changedDocuments).toContain(uri.toString()), WAIT);
  expect((await workspace.openTextDocument(uri)).getText()).toBe("Something was redacted in this session, so this is no longer shown.");
});

/** The commands above the lines of a document. */
async function lensesOf(uri: Uri): Promise<{ command: string; title: string; arguments: unknown[] }[]> {
  return languages.lenses!.provideCodeLenses(await linesOf(uri)).map(({ command }) => command);
}

async function linesOf(uri: Uri): Promise<{ uri: Uri; lineCount: number; getText(): string; lineAt(line: number): { text: string } }> {
  const text = (await workspace.openTextDocument(uri)).getText();
  const lines = text.split("\n");
  return { uri, lineCount: lines.length, getText: () => text, lineAt: (line) => ({ text: lines[line]! }) };
}

/** Presses the lens of this title above a message. */
async function pressLens(uri: Uri, title: string, index: number): Promise<void> {
  const lens = (await lensesOf(uri)).filter((one) => one.title === title)[index]!;
  await commands.executeCommand(lens.command, ...lens.arguments);
}

async function openWhole(): Promise<Uri> {
  await commands.executeCommand("timeleap.openWholeDocument");
  return (user.opened.at(-1) as { uri: Uri }).uri;
}

/** Chooses by its label, and keeps what there was to choose from. */
function choose(label: string, offered: string[] = []): void {
  user.pick = (items) => {
    offered.splice(0, offered.length, ...(items as { label: string }[]).map((item) => item.label));
    return items.find((item) => (item as { label: string }).label === label);
  };
}

test("the whole conversation opens as a document, with what can be done at each message", async () => {
  seed(running.home, "chat", turns(3));
  await open("chat");
  const uri = await openWhole();
  expect(shown().match(/^## /gm)).toHaveLength(6);
  const each = ["Go Back to Before This…", "Fork from Here…", "Compare with Present", "More…"];
  expect((await lensesOf(uri)).map(({ title }) => title)).toEqual([0, 1, 2, 3, 4, 5].flatMap(() => each));
  await pressLens(uri, "Compare with Present", 4);
  const [before, present] = await compared();
  expect([before.includes("question 2"), before.includes("answer 2"), present.includes("answer 2")]).toEqual([true, false, true]);
  press("Go Back");
  await pressLens(uri, "Go Back to Before This…", 5);
  expect(user.said.at(-2)).toMatchObject({ modal: true, message: "Go back to before “answer 2”?" });
  expect(running.api.shownSession!.state.context.messageCount).toBe(5);
});

test("a fork from a message of a document ends with that message, as one from the page does, whether a checkpoint stands behind it or not", async () => {
  seed(running.home, "chat", turns(3));
  await open("chat");
  const uri = await openWhole();
  const questions: (string | undefined)[] = [];
  user.input = ({ title }) => {
    questions.push(title);
    return "a branch";
  };
  for (const index of [2, 3, 5]) {
    await pressLens(uri, "Fork from Here…", index);
    const forked = running.api.shownSession!;
    expect([forked.state.title, forked.state.context.messageCount]).toEqual(["a branch", index + 1]);
    await open("chat");
    expect(running.api.shownSession!.state.context.messageCount).toBe(6);
  }
  expect(questions).toEqual([2, 3, 5].map((index) => `Fork: the new session ends with message ${index}`));
});

test("pin, note, copy and go again are in the list of a document's message, as in the page", async () => {
  seed(running.home, "chat", turns(3));
  await open("chat");
  const uri = await openWhole();
  const offered: string[] = [];
  choose("Pin", offered);
  await pressLens(uri, "More…", 2);
  const all = ["Go Back to Before This…", "Edit and Go Again…", "Fork from Here…", "Pin", "Write a Note to Here…", "Compare with Present", "Copy as Markdown", "Copy as JSON"];
  expect(offered).toEqual(all);
  await vi.waitFor(() => expect(running.api.shownSession!.state.pins).toEqual(["question 1"]), WAIT);
  choose("Copy as Markdown", offered);
  await pressLens(uri, "More…", 3);
  expect(offered).toEqual(all.filter((label) => label !== "Edit and Go Again…"));
  expect(user.clipboard).toBe("## 3 · Assistant\n\nanswer 1\n");
  choose("Copy as JSON");
  await pressLens(uri, "More…", 3);
  expect(JSON.parse(user.clipboard)).toEqual({ role: "assistant", content: "answer 1" });
  choose("Write a Note to Here…");
  user.input = () => "do it otherwise";
  await pressLens(uri, "More…", 3);
  await vi.waitFor(() => expect(running.api.shownSession!.state.pendingDMail).toMatchObject({ checkpointId: 1, message: "do it otherwise" }), WAIT);
  choose("Edit and Go Again…");
  press("Go Back");
  await pressLens(uri, "More…", 4);
  expect([user.clipboard, running.api.shownSession!.state.context.messageCount]).toEqual(["question 2", 4]);
});

test("the list is of the message that the cursor is in; without one it says so, and a choice not made does nothing", async () => {
  seed(running.home, "chat", turns(3));
  await open("chat");
  const document = await linesOf(await openWhole());
  const at = (line: number): void => {
    window.activeTextEditor = { document, selection: { active: { line } } };
  };
  user.clipboard = "mine";
  at(document.getText().split("\n").indexOf("question 2"));
  user.pick = () => undefined;
  await commands.executeCommand("timeleap.messageActions");
  expect(user.clipboard).toBe("mine");
  choose("Copy as Markdown");
  await commands.executeCommand("timeleap.messageActions");
  expect(user.clipboard).toBe("## 4 · User\n\nquestion 2\n");
  window.activeTextEditor = undefined;
  await commands.executeCommand("timeleap.messageActions");
  expect(user.said.at(-1)!.message).toContain("Put the cursor into a message");
});

test("of a message that was set aside there is what changes nothing", async () => {
  seed(running.home, "chat", turns(2));
  await open("chat");
  press("Clear");
  await commands.executeCommand("timeleap.clear");
  const [timeline] = await running.rows("timelines");
  await commands.executeCommand("timeleap.openDocument", timeline!.node);
  const { uri } = user.opened.at(-1) as { uri: Uri };
  expect((await lensesOf(uri)).map(({ title }) => title).slice(1, 3)).toEqual(["Compare with Present", "More…"]);
  const offered: string[] = [];
  choose("Copy as Markdown", offered);
  await pressLens(uri, "More…", 3);
  expect(offered).toEqual(["Compare with Present", "Copy as Markdown", "Copy as JSON"]);
  expect(user.clipboard).toBe("## 3 · Assistant\n\nanswer 1\n");
});
