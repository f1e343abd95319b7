import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { TimeleapClient } from "timeleap-client";
import { seed, turns } from "../support/data.js";
import { start, type Running } from "../support/extension.js";
import { commands, Uri, user, window, workspace } from "../support/vscode.js";
import { FakePage } from "./fakePage.js";
import { agent, labels, open, press } from "./support.js";

let running: Running;
let other: TimeleapClient | undefined;

beforeEach(() => {
  user.reset();
  running = start();
});

afterEach(async () => {
  await other?.shutdown();
  other = undefined;
  await running.stop();
});

const WAIT = { timeout: 20_000, interval: 50 };

test("a checkpoint that is written live gets its name from what follows it", async () => {
  other = await agent(running);
  await other.request("session/open", { sessionId: "named", title: "Named" });
  await open("Named");
  await other.request("context/checkpoint", { sessionId: "named" });
  await vi.waitFor(async () => expect(labels(await running.rows("checkpoints"))).toEqual(["Checkpoint #0"]), WAIT);
  await other.request("context/appendMessage", { sessionId: "named", message: { role: "user", content: "Round the shares, please" } });
  await vi.waitFor(async () => expect(labels(await running.rows("checkpoints"))).toEqual(["Round the shares, please"]), WAIT);
});

test("that another program takes the conversation back is told, with a way to undo it; what this window does is not", async () => {
  seed(running.home, "taken", turns(3));
  await open("taken");
  const before = running.api.shownSession!.state.context.messageCount;
  other = await agent(running);
  await other.request("session/open", { sessionId: "taken" });
  press("Undo");
  await other.request("context/revertTo", { sessionId: "taken", checkpointId: 1 });
  await vi.waitFor(() => expect(user.said.map(({ message }) => message)).toContain("agent changed “taken”: 4 messages, 2 checkpoints, 200 tokens set aside."), WAIT);
  await vi.waitFor(() => expect(running.api.shownSession!.state.context.messageCount).toBe(before), WAIT);
  user.said = [];
  await commands.executeCommand("timeleap.restore", (await running.rows("checkpoints"))[0]!.node);
  expect(user.said.map(({ message }) => message)).toEqual([expect.stringContaining("Restored to before “question 2”: ") as string]);
});

test("what an agent in another process writes appears, and what is reverted here reaches it", async () => {
  other = await agent(running);
  await other.request("session/open", { sessionId: "shared", title: "Shared" });
  await open("Shared");
  expect(running.api.shownSession!.state.access).toBe("attached");
  const heard: string[] = [];
  other.onNotification("context/didChange", ({ kind }) => heard.push(kind));

  const { checkpoint } = await other.request("context/checkpoint", { sessionId: "shared", label: "by the agent" });
  await other.request("context/appendMessage", { sessionId: "shared", message: { role: "user", content: "hello" } });
  await vi.waitFor(async () => expect(labels(await running.rows("checkpoints"))).toEqual(["by the agent"]), WAIT);
  const [row] = await running.rows("checkpoints");
  await vi.waitFor(async () => expect(labels(await running.rows("checkpoints", row!.node))).toEqual(["hello"]), WAIT);

  await commands.executeCommand("timeleap.restore", row!.node);
  await vi.waitFor(() => expect(heard).toContain("reverted"), WAIT);
  expect((await other.request("context/listCheckpoints", { sessionId: "shared" })).checkpoints).not.toContainEqual(checkpoint);
});

test("the state follows: tokens, approvals", async () => {
  other = await agent(running);
  await other.request("session/open", { sessionId: "shared", title: "Shared" });
  await open("Shared");
  await other.request("context/updateTokenCount", { sessionId: "shared", tokenCount: 1_234 });
  await other.request("session/setAutoApprove", { sessionId: "shared", action: "run tests", enabled: true });
  const [tokens, approvals] = ["tokens", "approvals"].map((name) => user.statusBar.find(({ id }) => id === `timeleap.${name}`));
  await vi.waitFor(() => expect(tokens!.text).toContain("1.2K"), WAIT);
  await vi.waitFor(() => expect(approvals!.text).toContain("Without asking: 1"), WAIT);
});

test("what stands above the rows is set when it is another text only: after each time the editor draws rows later", async () => {
  seed(running.home, "chat", turns(3));
  await open("chat");
  const view = user.trees.get("timeleap.checkpoints") as { message?: string | undefined };
  const set: (string | undefined)[] = [];
  Object.defineProperty(view, "message", { get: () => set.at(-1), set: (text: string | undefined) => set.push(text) });
  await running.api.shownSession!.checkpoint("more");
  await vi.waitFor(async () => expect(labels(await running.rows("checkpoints"))).toContain("more"), WAIT);
  expect(set).toEqual([]);
  await commands.executeCommand("timeleap.archive");
  await vi.waitFor(() => expect(set).toEqual(["Archived"]), WAIT);
});

test("ids of rows survive changes, so that selection and expansion do", async () => {
  seed(running.home, "chat", turns(3));
  await open("chat");
  const before = (await running.rows("checkpoints")).map(({ item }) => item.id);
  await running.api.shownSession!.checkpoint("more");
  const after = (await running.rows("checkpoints")).map(({ item }) => item.id);
  expect(after.slice(1)).toEqual(before);
});

test("a server that is killed is replaced, the session goes on, and the view says what happened", async () => {
  const folder = seed(running.home, "chat", turns(3));
  await open("chat");
  const session = running.api.shownSession!;
  other = await agent(running);
  const { sessions } = await other.request("session/list", {});
  process.kill(sessions[0]!.owner!.pid, "SIGKILL");
  // Asked while there is no server: it takes effect once, on the next one.
  await session.append({ role: "user", content: "after the crash" });
  expect(readFileSync(join(folder, "context.jsonl"), "utf8").match(/after the crash/g)).toHaveLength(1);
  expect(user.trees.get("timeleap.checkpoints")!.message).toContain("was started again");
  expect(labels(await running.rows("checkpoints"))).toHaveLength(3);
  expect(user.context.get("timeleap.problem")).toBe("");
});

test("a server that is started by hand has the sessions open again", async () => {
  seed(running.home, "chat", turns(2));
  await open("chat");
  const session = running.api.shownSession!;
  const restarting = commands.executeCommand("timeleap.restartServer");
  const appending = session.append({ role: "user", content: "asked meanwhile" });
  await restarting;
  await session.append({ role: "user", content: "after the restart" });
  expect(await appending).toBe(4);
  expect(running.api.shownSession).toBe(session);
  expect(labels(await running.rows("checkpoints"))).toEqual(["question 1", "question 0"]);
});

test("what another process did while there was no server is shown afterwards", async () => {
  other = await agent(running);
  await other.request("session/open", { sessionId: "shared", title: "Shared" });
  await open("Shared");
  expect(await running.rows("checkpoints")).toEqual([]);
  const restarting = commands.executeCommand("timeleap.restartServer");
  await other.request("context/checkpoint", { sessionId: "shared", label: "meanwhile" });
  await restarting;
  await vi.waitFor(async () => expect(labels(await running.rows("checkpoints"))).toEqual(["meanwhile"]), WAIT);
});

test("the session that was shown is shown again in the next window", async () => {
  seed(running.home, "chat", turns(2));
  await open("chat");
  await running.close();
  user.reset();
  const next = start(running.memory, running.home);
  expect(labels(await next.rows("checkpoints"))).toEqual(["question 1", "question 0"]);
  running = next;
});

test.each([true, false])("in the next window the server is there before anybody looks, where the workspace is trusted: %s", async (trusted) => {
  seed(running.home, "chat", turns(2));
  await open("chat");
  await running.close();
  user.reset();
  workspace.isTrusted = trusted;
  const log = vi.spyOn(window, "createOutputChannel");
  running = start(running.memory, running.home);
  await new Promise(setImmediate); // with a setting that names the server nothing has to be waited for
  const said = (log.mock.results.at(-1)!.value as { lines: string[] }).lines.join("\n");
  expect(said.includes("starting")).toBe(trusted);
  if (trusted) {
    await vi.waitFor(() => expect(user.context.get("timeleap.ready")).toBe(true), WAIT);
  }
  expect(running.api.shownSession).toBeUndefined();
});

test("the newest session of the workspace is shown when nothing is remembered", async () => {
  other = await agent(running);
  await other.request("session/open", { sessionId: "here", workspace: "file:///project" });
  await other.request("context/checkpoint", { sessionId: "here", label: "mine" });
  await other.request("session/open", { sessionId: "elsewhere" });
  workspace.workspaceFolders = [{ uri: Uri.file("/project"), name: "project", index: 0 }];
  await running.close();
  user.statusBar = [];
  user.trees.clear();
  running = start(new Map(), running.home);
  expect(labels(await running.rows("checkpoints"))).toEqual(["mine"]);
});

test("with nothing to show, the first session of the workspace is shown as soon as it is there", async () => {
  workspace.workspaceFolders = [{ uri: Uri.file("/project"), name: "project", index: 0 }];
  expect(await running.rows("checkpoints")).toEqual([]);
  other = await agent(running);
  await other.request("session/open", { sessionId: "here", workspace: "file:///project" });
  await other.request("context/checkpoint", { sessionId: "here", label: "mine" });
  await commands.executeCommand("timeleap.refresh");
  expect(labels(await running.rows("checkpoints"))).toEqual(["mine"]);
  await commands.executeCommand("timeleap.closeSession");
  expect(await running.rows("checkpoints")).toEqual([]);
});

test("what a person closed stays closed", async () => {
  workspace.workspaceFolders = [{ uri: Uri.file("/project"), name: "project", index: 0 }];
  expect(await running.rows("checkpoints")).toEqual([]);
  user.input = () => "mine";
  await commands.executeCommand("timeleap.newSession");
  await commands.executeCommand("timeleap.closeSession");
  await running.rows("checkpoints");
  expect(running.api.shownSession).toBeUndefined();
});

test("four programs on one session: what each of them writes, takes back and brings back is the same for all, on the page too", async () => {
  seed(running.home, "crowd", turns(5));
  await open("crowd");
  await commands.executeCommand("timeleap.openConversation");
  const page = new FakePage();
  page.say({ kind: "ready" });
  await page.next("usage");
  const three = await Promise.all([agent(running), agent(running), agent(running)]);
  const [first, second, third] = three;
  try {
    await Promise.all(three.map((one) => one.request("session/open", { sessionId: "crowd", create: false })));
    const write = (one: TimeleapClient, who: number) => async (turn: number): Promise<unknown> => {
      await one.request("context/checkpoint", { sessionId: "crowd", label: `${who}.${turn}` });
      return one.request("context/appendMessage", { sessionId: "crowd", message: { role: "user", content: `${who}.${turn}` } });
    };
    await Promise.all(three.flatMap((one, who) => [0, 1, 2].map(write(one, who))));
    await first.request("context/revertTo", { sessionId: "crowd", checkpointId: 3 });
    await second.request("context/undo", { sessionId: "crowd" });
    await Promise.all(three.map((one, who) => write(one, who)(3)));
    await vi.waitFor(() => expect(page.facts).toMatchObject({ messages: 22, checkpoints: 17 }), WAIT);
    const { checkpoints } = await third.request("context/listCheckpoints", { sessionId: "crowd" });
    const named = checkpoints.map(({ label, name }) => label ?? name).sort();
    await vi.waitFor(async () => expect(labels(await running.rows("checkpoints")).sort()).toEqual(named), WAIT);
    expect((await page.read(0, 22)).length).toBe(22);
  } finally {
    await Promise.all(three.map((one) => one.shutdown()));
  }
});

test("that another program put the shown session into the trash is said, with the way back; where this window did, Undo is offered once", async () => {
  seed(running.home, "chat", turns(1));
  await open("chat");
  other = await agent(running);
  await other.request("session/open", { sessionId: "chat" });
  await other.request("session/setTitle", { sessionId: "chat", title: "The bill" });
  await vi.waitFor(() => expect(running.api.shownSession?.state.title).toBe("The bill"), WAIT);
  press("Take Out of the Trash");
  user.pick = (items) => items[0];
  await other.request("session/delete", { sessionId: "chat" });
  await vi.waitFor(() => expect(user.said).toMatchObject([{ message: "In the trash: The bill", buttons: ["Take Out of the Trash"] }]), WAIT);
  await vi.waitFor(() => expect(existsSync(join(running.home, "sessions", "chat", "context.jsonl"))).toBe(true), WAIT);
  await open("The bill");
  user.said = [];
  await commands.executeCommand("timeleap.delete");
  expect(user.said).toMatchObject([{ message: "In the trash: The bill", buttons: ["Undo"] }]);
});
