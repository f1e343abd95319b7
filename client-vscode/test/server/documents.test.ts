import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { SAMPLE, seed, turns } from "../support/data.js";
import { start, type Running } from "../support/extension.js";
import { commands, user, window, workspace, type Uri } from "../support/vscode.js";
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

test("a checkpoint opens as its conversation, a message as itself", async () => {
  seed(running.home, "chat", turns(3));
  await open("chat");
  const [, checkpoint] = await running.rows("checkpoints");
  await commands.executeCommand("timeleap.openDocument", checkpoint!.node);
  expect(shown()).toBe("## 2 · User\n\nquestion 1\n\n## 3 · Assistant\n\nanswer 1\n");
  const [, message] = await running.rows("checkpoints", checkpoint!.node);
  await commands.executeCommand("timeleap.openDocument", message!.node);
  expect(shown()).toBe("## 3 · Assistant\n\nanswer 1\n");
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
  const rows = await running.rows("checkpoints");
  await commands.executeCommand("timeleap.restore", rows[2]!.node);
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

test("what is open stays readable where the conversation goes back: from the timeline that has it", async () => {
  seed(running.home, "chat", turns(4));
  await open("chat");
  const rows = await running.rows("checkpoints");
  await commands.executeCommand("timeleap.openDocument", rows[0]!.node);
  const [, message] = await running.rows("checkpoints", rows[3]!.node);
  await commands.executeCommand("timeleap.openDocument", message!.node);
  expect(tabs()).toEqual(["3 question 3.md", "1 Assistant answer 0.md"]);
  await commands.executeCommand("timeleap.restore", rows[1]!.node);
  // The tab of the other timeline opens before the old one closes. The present has the second document still.
  const followed = new Set(["(set aside) 3 question 3.md", "1 Assistant answer 0.md"]);
  await vi.waitFor(() => expect(new Set(tabs())).toEqual(followed), WAIT);
  const aside = window.tabGroups.all[0]!.tabs.find(({ label }) => label.startsWith("(set aside)"))!.input.uri;
  const document = await workspace.openTextDocument(aside);
  expect(document.getText()).toBe("## 6 · User\n\nquestion 3\n\n## 7 · Assistant\n\nanswer 3\n");
});

test("a document whose checkpoint goes keeps what it said until it is moved; a redaction empties every document at once", async () => {
  seed(running.home, "chat", turns(2));
  await open("chat");
  const [checkpoint] = await running.rows("checkpoints");
  await commands.executeCommand("timeleap.openDocument", checkpoint!.node);
  const { uri } = user.opened.at(-1) as { uri: Uri };
  const before = shown();
  window.tabGroups.all = [];
  await commands.executeCommand("timeleap.restore", checkpoint!.node);
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
