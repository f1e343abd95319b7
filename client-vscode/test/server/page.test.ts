import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { TimeleapClient, TimeleapError } from "timeleap-client";
import { FIRST_WAIT } from "../../src/features/page/conversation.js";
import type { ShownCheckpoint, ShownMessage, ToPage } from "../../src/features/page/wire.js";
import { seed, turns } from "../support/data.js";
import { start, type Running } from "../support/extension.js";
import { commands, user, WebviewPanel } from "../support/vscode.js";
import { FakePage, WAIT } from "./fakePage.js";
import { agent, answersOfStandby, open } from "./support.js";

let running: Running;
let other: TimeleapClient | undefined;

beforeEach(() => {
  user.reset();
  running = start();
});

afterEach(async () => {
  vi.restoreAllMocks();
  await other?.shutdown();
  other = undefined;
  await running.stop();
});

async function pageOf(name: string): Promise<FakePage> {
  await open(name);
  await commands.executeCommand("timeleap.openConversation");
  const page = new FakePage();
  page.say({ kind: "ready" });
  await page.next("usage");
  return page;
}

const texts = (messages: readonly ShownMessage[]): string[] => messages.flatMap(({ parts }) => parts.map((part) => (part.kind === "text" ? part.text : part.kind)));

test("a page begins at the newest message, with its facts and all checkpoints", async () => {
  seed(running.home, "chat", turns(60));
  const page = await pageOf("chat");
  expect(page.facts).toMatchObject({ title: "chat", messages: 120, checkpoints: 60, tokens: 6_000, writable: true });
  const { messages } = await page.next("messages");
  expect(texts(messages).at(-1)).toBe("answer 59");
  expect(messages.length).toBeLessThanOrEqual(60);
  const { checkpoints, more } = await page.next("checkpoints");
  expect(more).toBe(false);
  expect(checkpoints.at(-1)).toMatchObject({ id: 59, at: 118, name: "question 59" } satisfies Partial<ShownCheckpoint>);
  expect(await page.next("go")).toMatchObject({ index: 120 });
});

/** As if the server were quick, however busy the machine is. */
function quickServer(): void {
  const later = globalThis.setTimeout;
  vi.spyOn(globalThis, "setTimeout").mockImplementation(((run: () => void, wait: number, ...given: []) => later(run, wait === FIRST_WAIT ? 60_000 : wait, ...given)) as typeof setTimeout);
}

test("the messages at the place come with the page, and are not sent again", async () => {
  quickServer();
  seed(running.home, "chat", turns(60));
  const page = await pageOf("chat");
  const kinds = (user.panels[0]!.told as unknown as ToPage[]).map(({ kind }) => kind);
  expect(kinds).toContain("checkpoints");
  expect(kinds).not.toContain("messages");
  expect(kinds).not.toContain("go");
  expect(page.told.slice(0, 3).map(({ kind }) => kind)).toEqual(["facts", "messages", "go"]);
});

test("where the page stands before its messages have come is not where it goes", async () => {
  seed(running.home, "chat", turns(60));
  await open("chat");
  const rows = await running.rows("checkpoints");
  await commands.executeCommand("timeleap.openConversation", rows[15]!.node);
  const panel = user.panels[0]!;
  panel.turn(false);
  panel.turn(true);
  const page = new FakePage();
  page.forget();
  page.say({ kind: "ready" });
  page.say({ kind: "top", index: 0 });
  expect(await page.next("go")).toMatchObject({ index: 88 });
});

test("a page that is shown again is made without what was read before, and reads it anew", async () => {
  quickServer();
  other = await agent(running);
  seed(running.home, "chat", [...turns(2), { role: "user", content: "the secret is hunter2-hunter2" }]);
  const page = await pageOf("chat");
  const panel = user.panels[0]!;
  expect(panel.webview.html).toContain("hunter2");
  panel.turn(false);
  expect(panel.webview.html).not.toContain("hunter2");
  await other.request("session/open", { sessionId: "chat" });
  await other.request("session/redact", { sessionId: "chat", value: "hunter2-hunter2" });
  panel.turn(true);
  page.forget();
  page.say({ kind: "ready" });
  await page.next("go");
  expect(texts(await page.read(0, 5)).at(-1)).toMatch(/^the secret is/);
  expect(JSON.stringify(page.told.slice(4))).not.toContain("hunter2");
});

const revive = (panel: WebviewPanel, state: unknown): Promise<void> =>
  (user.serializers.get("timeleap.conversation") as { deserializeWebviewPanel(panel: WebviewPanel, state: unknown): Promise<void> }).deserializeWebviewPanel(panel, state);
const restoredPanel = (): WebviewPanel => new WebviewPanel("timeleap.conversation", "before", {});

test("a page of a reloaded window is the same conversation at the same message, also in a timeline", async () => {
  seed(running.home, "chat", turns(40));
  const panel = restoredPanel();
  await revive(panel, { sessionId: "chat", index: 6 });
  const page = new FakePage(panel);
  expect(page.facts).toMatchObject({ title: "chat", messages: 80, session: { sessionId: "chat" } });
  expect(await page.next("go")).toMatchObject({ index: 6 });
  expect(panel.webview.options).toMatchObject({ enableScripts: true, localResourceRoots: [] });
});

test.each([undefined, null, 5, {}, { sessionId: 5 }, { sessionId: "chat", index: "<" }, { sessionId: "chat", timeline: {} }])("a page that kept %j is closed", async (state) => {
  seed(running.home, "chat", turns(1));
  const panel = restoredPanel();
  let closed = false;
  panel.onDidDispose(() => (closed = true));
  await revive(panel, state);
  expect([closed, panel.webview.html]).toEqual([true, ""]);
});

test("a page whose session is gone says so, and runs nothing", async () => {
  const panel = restoredPanel();
  await revive(panel, { sessionId: "<img src=x>" });
  expect(panel.webview.html).toContain("could not be opened");
  expect(panel.webview.html).toContain("default-src 'none'");
  expect(panel.webview.html).not.toMatch(/<script|<img/);
});

test("the page holds its script and nothing that could fetch", async () => {
  seed(running.home, "chat", turns(1));
  await pageOf("chat");
  const { html } = user.panels[0]!.webview;
  const [, nonce] = /script-src 'nonce-(\w{32})'/.exec(html)!;
  expect(html).toContain("default-src 'none'");
  expect(html).toContain("img-src data:;");
  expect(html).not.toMatch(/unsafe|https?:|connect-src/u);
  expect(html).toContain(`<script nonce="${nonce!}">// <\\/script> the page`);
  expect(user.panels[0]!.options).toMatchObject({ localResourceRoots: [] });
});

test("a checkpoint's row opens the page there, in the same editor", async () => {
  seed(running.home, "chat", turns(20));
  const page = await pageOf("chat");
  const rows = await running.rows("checkpoints");
  page.forget();
  await commands.executeCommand("timeleap.openConversation", rows[15]!.node);
  expect(await page.next("go")).toMatchObject({ index: 8 });
  expect(user.panels).toHaveLength(1);
});

test("what another process writes is told at once, and read when it is looked at", async () => {
  other = await agent(running);
  await other.request("session/open", { sessionId: "shared", title: "Shared" });
  const page = await pageOf("Shared");
  await other.request("context/checkpoint", { sessionId: "shared", label: "by the agent" });
  expect((await page.next("checkpoint")).checkpoint).toMatchObject({ name: "by the agent", at: 0 });
  await other.request("context/appendMessage", { sessionId: "shared", message: { role: "user", content: "hello" } });
  await page.next("facts", ({ facts }) => facts.messages === 1);
  expect(texts(await page.read(0, 1))).toEqual(["hello"]);
});

test("after a revert elsewhere the page keeps what stayed and is told the checkpoints anew", async () => {
  other = await agent(running);
  seed(running.home, "chat", turns(10));
  const page = await pageOf("chat");
  const before = page.facts;
  await other.request("session/open", { sessionId: "chat" });
  page.forget();
  await other.request("context/revertTo", { sessionId: "chat", checkpointId: 6 });
  const { facts } = await page.next("facts", ({ facts: { messages } }) => messages === 12);
  expect(facts).toMatchObject({ keep: 12, epoch: before.epoch + 1, canUndo: 1 });
  expect((await page.next("checkpoints")).checkpoints).toHaveLength(6);
  const timelines = await page.next("timelines", ({ timelines: [first] }) => first?.common !== undefined);
  expect(timelines.timelines).toMatchObject([{ reason: "revert", messages: 20, common: 12 }]);
});

test("after a compaction elsewhere the page shows what it left, and what it set aside as a timeline", async () => {
  other = await agent(running);
  seed(running.home, "chat", turns(10));
  const page = await pageOf("chat");
  const before = page.facts;
  await other.request("session/open", { sessionId: "chat" });
  page.forget();
  const { context } = await other.request("context/compact", { sessionId: "chat", summarizer: "builtin" });
  const { facts } = await page.next("facts", ({ facts: { messages } }) => messages === context.messageCount);
  expect(facts).toMatchObject({ keep: 0, canUndo: 1 });
  expect(facts.epoch).toBeGreaterThan(before.epoch);
  expect((await page.next("timelines")).timelines).toMatchObject([{ reason: "compact", messages: 20 }]);
  expect(await page.read(0, facts.messages)).toHaveLength(facts.messages);
});

test("what was redacted elsewhere is forgotten, and is not in what is read again", async () => {
  other = await agent(running);
  seed(running.home, "chat", [...turns(2), { role: "user", content: "the secret is hunter2-hunter2" }]);
  const page = await pageOf("chat");
  await other.request("session/open", { sessionId: "chat" });
  page.forget();
  await other.request("session/redact", { sessionId: "chat", value: "hunter2-hunter2" });
  const { facts } = await page.next("facts", (message) => message.facts.epoch > 1);
  expect(facts.keep).toBe(0);
  expect(JSON.stringify(await page.read(0, 5))).not.toContain("hunter2");
});

test("a session that another window deletes leaves the page", async () => {
  other = await agent(running);
  seed(running.home, "chat", turns(2));
  const page = await pageOf("chat");
  page.forget();
  await other.request("session/delete", { sessionId: "chat" });
  expect(await page.next("trouble", ({ gone }) => gone === true)).toMatchObject({ text: expect.stringContaining("deleted") as string });
});

test("a server that is killed is told, and the page is right again afterwards", async () => {
  seed(running.home, "chat", turns(3));
  const page = await pageOf("chat");
  other = await agent(running);
  const { sessions } = await other.request("session/list", {});
  page.forget();
  process.kill(sessions[0]!.owner!.pid, "SIGKILL");
  expect((await page.next("trouble")).text).toContain("started again");
  await page.next("trouble", ({ text }) => text === undefined);
  await running.api.shownSession!.append({ role: "user", content: "after the crash" });
  await page.next("facts", ({ facts }) => facts.messages === 7);
  expect(texts(await page.read(6, 7))).toEqual(["after the crash"]);
});

test("while a standby answers, the page says that changes may be missing", async () => {
  seed(running.home, "chat", turns(2));
  const page = await pageOf("chat");
  const marked = /^⚠ .*no primary of the database answered.*may lack the newest changes\.$/u;
  page.forget();
  const standby = answersOfStandby();
  await page.read(0, 1);
  expect((await page.next("trouble")).text).toMatch(marked);
  page.forget();
  standby.answers = false;
  await page.read(0, 1);
  expect((await page.next("trouble")).text ?? "").not.toMatch(marked);
});

test("edit and go again: back to before the prompt, which is in the clipboard", async () => {
  seed(running.home, "chat", turns(5));
  const page = await pageOf("chat");
  page.say({ kind: "act", action: "again", index: 4 });
  await page.next("facts", ({ facts }) => facts.messages === 4);
  await vi.waitFor(() => expect(user.clipboard).toBe("question 2"), WAIT);
});

test("edit and go again: an agent that takes the prompt gets it, and the clipboard stays", async () => {
  seed(running.home, "chat", turns(5));
  const page = await pageOf("chat");
  const taken: object[] = [];
  const handler = running.api.registerPromptHandler(({ session, ...prompt }) => taken.push({ ...prompt, of: session === running.api.shownSession, messages: session.state.context.messageCount }) > 0);
  user.clipboard = "mine";
  page.say({ kind: "act", action: "again", index: 4 });
  await vi.waitFor(() => expect(taken).toHaveLength(1), WAIT);
  const checkpointUid = running.api.shownSession!.state.context.checkpoints.at(-1)!.uid;
  expect(taken).toMatchObject([{ text: "question 2", message: { role: "user" }, messageIndex: 4, checkpointUid, of: true, messages: 4 }]);
  handler.dispose();
  page.say({ kind: "act", action: "again", index: 2 });
  await vi.waitFor(() => expect(user.clipboard).toBe("question 1"), WAIT);
  expect(taken).toHaveLength(1);
});

test("without a yes nothing goes back, and the clipboard stays", async () => {
  seed(running.home, "chat", turns(3));
  const page = await pageOf("chat");
  user.settings.set("timeleap.restore.ask", true);
  user.clipboard = "mine";
  page.say({ kind: "act", action: "again", index: 2 });
  await vi.waitFor(() => expect(user.said.some(({ modal }) => modal)).toBe(true), WAIT);
  await page.read(0, 1);
  expect([page.facts.messages, user.clipboard]).toEqual([6, "mine"]);
});

test("fork from a message: a session that ends with it, shown; the other is as it was", async () => {
  seed(running.home, "chat", turns(5));
  const page = await pageOf("chat");
  user.input = ({ value }) => value;
  page.say({ kind: "act", action: "fork", index: 4 });
  await vi.waitFor(() => expect(running.api.shownSession!.state.title).toBe("chat (fork)"), WAIT);
  await vi.waitFor(() => expect(running.api.shownSession!.state.context.messageCount).toBe(5), WAIT);
  expect(page.facts).toMatchObject({ title: "chat", messages: 10 });
});

test("pin, copy and note", async () => {
  seed(running.home, "chat", turns(3));
  const page = await pageOf("chat");
  page.say({ kind: "act", action: "pin", index: 2 });
  await vi.waitFor(() => expect(running.api.shownSession!.state.pins).toEqual(["question 1"]), WAIT);
  page.say({ kind: "act", action: "markdown", index: 3 });
  await vi.waitFor(() => expect(user.clipboard).toBe("## 3 · Assistant\n\nanswer 1\n"), WAIT);
  page.say({ kind: "act", action: "json", index: 3 });
  await vi.waitFor(() => expect(user.clipboard).toContain('"answer 1"'), WAIT);
  user.input = () => "do it otherwise";
  page.say({ kind: "act", action: "note", index: 3 });
  await vi.waitFor(() => expect(running.api.shownSession!.state.pendingDMail).toMatchObject({ checkpointId: 1, message: "do it otherwise" }), WAIT);
});

test("JSON is copied as it is written, numbers that JavaScript would round included", async () => {
  const folder = seed(running.home, "chat", turns(1));
  appendFileSync(join(folder, "context.jsonl"), '{"role":"_checkpoint","id":1}\n{"role":"user","content":"时间","id":12345678901234567890,"rate":0.1}\n');
  const page = await pageOf("chat");
  page.say({ kind: "act", action: "json", index: 2 });
  const written = '{\n  "role": "user",\n  "content": "时间",\n  "id": 12345678901234567890,\n  "rate": 0.1\n}\n';
  await vi.waitFor(() => expect(user.clipboard).toBe(written), WAIT);
});

test("search finds in what was set aside, too, and a timeline is shown as it was", async () => {
  seed(running.home, "chat", turns(6));
  const page = await pageOf("chat");
  await running.api.shownSession!.revert((await running.rows("checkpoints"))[2]!.node.id.split("/").at(-1)!);
  await page.next("facts", ({ facts }) => facts.messages === 6);
  page.say({ kind: "search", search: 1, query: "QUESTION 4" });
  const { hits } = await page.next("hits");
  expect(hits).toMatchObject([{ index: 8, preview: "question 4" }]);
  page.forget();
  page.say({ kind: "log", timeline: hits[0]!.timeline!, index: 8 });
  const { facts } = await page.next("facts");
  expect(facts).toMatchObject({ messages: 12, timeline: hits[0]!.timeline });
  expect(texts((await page.next("messages")).messages)).toContain("question 4");
  await page.next("checkpoints", ({ checkpoints }) => checkpoints.length === 6);
  page.say({ kind: "restore", timeline: hits[0]!.timeline! });
  await vi.waitFor(() => expect(running.api.shownSession!.state.context.messageCount).toBe(12), WAIT);
});

test("the page says as many tokens as the status bar, also where no model has reported any", async () => {
  seed(running.home, "chat", [{ role: "user", content: "x".repeat(8_000) }]);
  const page = await pageOf("chat");
  expect(page.facts.tokens).toBe(2_000);
  expect(user.statusBar.find(({ id }) => id === "timeleap.tokens")!.text).toBe("$(dashboard) 2K");
});

test("two checkpoints are compared", async () => {
  seed(running.home, "chat", turns(6));
  const page = await pageOf("chat");
  const { checkpoints } = await page.next("checkpoints");
  const pointOf = ({ at: end, name, tokens }: ShownCheckpoint) => ({ end, name, tokens });
  page.say({ kind: "compare", from: pointOf(checkpoints[4]!), to: pointOf(checkpoints[2]!) });
  expect(await page.next("comparison")).toMatchObject({ common: 4, removedCount: 4, addedCount: 0, tokens: [400, 200], names: ["question 4", "question 2"] });
});

test("a message, a timeline and another session are compared with the present", async () => {
  seed(running.home, "chat", turns(6));
  seed(running.home, "twin", [...turns(4), { role: "user", content: "another way" }]);
  const page = await pageOf("chat");
  page.say({ kind: "act", action: "compare", index: 6 });
  expect(await page.next("comparison")).toMatchObject({ common: 7, removedCount: 0, addedCount: 5, names: ["#6", "Present"] });
  page.forget();
  page.say({ kind: "compare", from: {}, to: { session: "twin" } });
  const { names, added } = await page.next("comparison", ({ common, removedCount, addedCount }) => common === 8 && removedCount === 4 && addedCount === 1);
  expect([names, texts(added)]).toEqual([["chat: Present", "twin: Present"], ["another way"]]);
  await running.api.shownSession!.revert((await running.rows("checkpoints"))[2]!.node.id.split("/").at(-1)!);
  const { timelines } = await page.next("timelines", ({ timelines: [first] }) => first !== undefined);
  page.forget();
  page.say({ kind: "compare", from: { timelineId: timelines[0]!.id }, to: {} });
  expect(await page.next("comparison")).toMatchObject({ common: 6, removedCount: 6, addedCount: 0 });
  user.pick = (items) => items.find((item) => (item as { point?: { end?: number } }).point?.end === 2);
  page.forget();
  page.say({ kind: "compareWith", from: { end: 4 } });
  expect(await page.next("comparison")).toMatchObject({ common: 2, removedCount: 2, addedCount: 0 });
});

test("of a text that was cut the rest is read on, piece by piece; what is gone says so", async () => {
  const long = "0123456789".repeat(100_000);
  seed(running.home, "chat", [{ role: "user", content: long }, { role: "assistant", content: "", tool_calls: [{ id: "1", type: "function", function: { name: "f", arguments: long } }] }]);
  const page = await pageOf("chat");
  const { messages } = await page.next("messages");
  const whole = async (place: { index: number; part?: number; call?: number }, beginning: string): Promise<string> => {
    let text = beginning;
    while (text.length < long.length) {
      page.forget();
      page.say({ kind: "text", epoch: page.facts.epoch, place, from: text.length });
      text += (await page.next("text")).text;
    }
    return text;
  };
  expect((await whole({ index: 0, part: 0 }, texts(messages)[0]!)) === long).toBe(true);
  expect((await whole({ index: 1, call: 0 }, messages[1]!.calls[0]!.given)) === long).toBe(true);
  page.say({ kind: "text", epoch: page.facts.epoch, place: { index: 7, part: 0 }, from: 0 });
  await vi.waitFor(() => expect(user.said.some(({ message }) => message.includes("changed meanwhile"))).toBe(true), WAIT);
});

test("something to read comes over the conversation, which stays where it is", async () => {
  seed(running.home, "chat", turns(3));
  const page = await pageOf("chat");
  page.forget();
  const sheet = { title: "Report", blocks: [{ kind: "text", text: "all of it" }] } as const;
  await commands.executeCommand("timeleap.openConversation", { sessionId: "chat", sheet });
  expect(await page.next("sheet")).toMatchObject({ sheet });
  expect(page.told.slice(-2).some(({ kind }) => kind === "go")).toBe(false);
});

test("of 10 000 checkpoints all are told, and of the messages only those around", async () => {
  seed(running.home, "long", turns(10_000));
  const page = await pageOf("long");
  const told = page.told.flatMap((message) => (message.kind === "checkpoints" ? message.checkpoints : []));
  expect(told).toHaveLength(10_000);
  const read = page.told.flatMap((message) => (message.kind === "messages" ? message.messages : []));
  expect(read.length).toBeLessThanOrEqual(60);
});

const revealed = (): string[] => (user.revealed as { readonly name?: string }[]).map(({ name }) => name ?? "");

test("the tree selects the row of what the page shows, as far as it has read; it shows the session of a page that comes in front", async () => {
  seed(running.home, "chat", turns(300));
  seed(running.home, "another", turns(2));
  const page = await pageOf("chat");
  await running.rows("checkpoints");
  user.revealed = [];
  page.say({ kind: "top", index: 598 }); // passed on the way
  page.say({ kind: "top", index: 592 });
  await vi.waitFor(() => expect(revealed()).toEqual(["question 296"]), WAIT);
  page.say({ kind: "top", index: 0 }); // not read yet
  page.say({ kind: "top", index: 600 });
  await vi.waitFor(() => expect(revealed()).toEqual(["question 296", "question 299"]), WAIT);
  await open("another");
  page.say({ kind: "top", index: 592 });
  expect(running.api.shownSession!.id).toBe("another");
  user.panels[0]!.turn(true);
  expect(running.api.shownSession!.id).toBe("chat");
  expect(revealed()).toHaveLength(2);
});

test("while rows are selected to be compared the tree does not follow the page, and of a row that is selected below its checkpoint nothing is changed", async () => {
  seed(running.home, "chat", turns(3));
  const page = await pageOf("chat");
  const [newest, middle] = await running.rows("checkpoints");
  const tree = user.trees.get("timeleap.checkpoints")!;
  user.revealed = [];
  tree.selection = [newest!.node, middle!.node];
  page.say({ kind: "top", index: 0 });
  await new Promise((resolve) => setTimeout(resolve, 400));
  tree.selection = [(await running.rows("checkpoints", newest!.node))[0]!.node];
  page.say({ kind: "top", index: 4 });
  await new Promise((resolve) => setTimeout(resolve, 400));
  expect(user.revealed).toEqual([]);
  tree.selection = [newest!.node];
  page.say({ kind: "top", index: 2 });
  await vi.waitFor(() => expect(revealed()).toEqual(["question 1"]), WAIT);
});

test("a database that goes away is said on the page, which is right again when it is back", async () => {
  seed(running.home, "chat", turns(200));
  const page = await pageOf("chat");
  const send = Object.getOwnPropertyDescriptor(TimeleapClient.prototype, "request")!.value as (this: TimeleapClient, method: string, params: object) => Promise<object>;
  let away = true;
  vi.spyOn(TimeleapClient.prototype, "request").mockImplementation(async function (this: TimeleapClient, method: string, params: object) {
    if (away && method === "context/getHistory") {
      throw new TimeleapError("no server answers", 4005, { kind: "storageFailure", retryable: true, backend: "postgresql" });
    }
    return send.call(this, method, params);
  } as never);
  page.forget();
  page.say({ kind: "read", epoch: page.facts.epoch, from: 0, to: 40 });
  await page.next("trouble", ({ text }) => text?.includes("cannot be shown") === true);
  away = false;
  expect(await page.read(0, 40)).toHaveLength(40);
  await vi.waitFor(() => expect(page.told.filter(({ kind }) => kind === "trouble").at(-1)).toEqual({ kind: "trouble" }), WAIT);
});
