import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type * as vscode from "vscode";
import { activate as activateSample } from "../../../examples/vscode-agent/src/extension.js";
import { start, type Running } from "../support/extension.js";
import { commands, extensions, user, workspace } from "../support/vscode.js";
import { labels } from "./support.js";

let running: Running;

beforeEach(() => {
  user.reset();
  running = start();
});

afterEach(() => running.stop());

async function all<T>(source: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const one of source) {
    found.push(one);
  }
  return found;
}

test("another extension opens, appends, goes back and undoes it, and hears of everything", async () => {
  const session = await running.api.openSession({ sessionId: "agent", title: "Agent" });
  const heard: string[] = [];
  session.onDidChange((change) => heard.push(change));
  const { uid } = await session.checkpoint("start");
  expect(await session.append({ role: "user", content: "a" }, { role: "assistant", content: "b" })).toBe(0);
  await session.setTokenCount(42);
  const { timelineId, context } = await session.revert(uid);
  expect(context.messageCount).toBe(0);
  expect(await all(session.history())).toEqual([]);
  await session.restore(timelineId!);
  expect((await all(session.history())).map(({ message }) => message["content"])).toEqual(["a", "b"]);
  expect(heard.filter((change) => change !== "state")).toEqual(["checkpointCreated", "messagesAppended", "tokenCountUpdated", "reverted", "timelineRestored"]);
  expect(session.state.context.tokenCount).toBe(42);
});

test("a long history comes page by page", async () => {
  const session = await running.api.openSession({ sessionId: "agent" });
  for (let block = 0; block < 3; block += 1) {
    await session.append(...Array.from({ length: 400 }, (_, index) => ({ role: "user", content: String(block * 400 + index) })));
  }
  expect((await all(session.history(100))).map(({ index }) => index)).toEqual(Array.from({ length: 1_100 }, (_, index) => index + 100));
});

test("the views show a session that an extension opens, unless it asks not to", async () => {
  const quiet = await running.api.openSession({ sessionId: "quiet", show: false });
  expect(running.api.shownSession).toBeUndefined();
  const heard: (string | undefined)[] = [];
  running.api.onDidChangeShownSession((session) => heard.push(session?.id));
  const loud = await running.api.openSession({ sessionId: "loud" });
  expect(running.api.shownSession).toBe(loud);
  expect(await running.api.openSession({ sessionId: "quiet", show: false })).toBe(quiet);
  await loud.close();
  expect(heard).toEqual(["loud", undefined]);
});

test("in Restricted Mode an extension can read and not write", async () => {
  await (await running.api.openSession({ sessionId: "agent" })).close();
  workspace.isTrusted = false;
  const session = await running.api.openSession({ sessionId: "agent" });
  await expect(session.append({ role: "user", content: "a" })).rejects.toMatchObject({ kind: "readOnly" });
  await expect(running.api.openSession({ sessionId: "new" })).rejects.toMatchObject({ kind: "sessionNotFound" });
});

test("the sample agent keeps its conversation here, and goes on from the past after a revert", async () => {
  extensions.known.set("timeleap.timeleap", { isActive: true, exports: running.api, activate: () => Promise.resolve(running.api) });
  await activateSample({ subscriptions: [] } as unknown as vscode.ExtensionContext);
  for (const question of ["one", "two", "three"]) {
    user.input = () => question;
    await commands.executeCommand("sampleAgent.ask");
  }
  const rows = await running.rows("checkpoints");
  expect(labels(rows)).toEqual(["three", "two", "one"]);
  const session = running.api.shownSession!;
  await session.revert(session.state.context.checkpoints[1]!.uid);
  user.input = () => "two again";
  await commands.executeCommand("sampleAgent.ask");
  expect((await all(session.history())).at(-1)!.message["content"]).toBe("That was question 2; you said: two again");
});

test("the sample agent asks before it runs a command, and goes on from what the person says", async () => {
  extensions.known.set("timeleap.timeleap", { isActive: true, exports: running.api, activate: () => Promise.resolve(running.api) });
  await activateSample({ subscriptions: [] } as unknown as vscode.ExtensionContext);
  const run = vi.fn();
  commands.registerCommand("sample.target", run);
  user.input = ({ title }) => (title?.startsWith("Reject") ? "not now" : "run sample.target");
  const questions: string[] = [];
  for (const answer of ["Approve", "Reject…"]) {
    user.answer = ({ message, buttons }) => {
      questions.push(message);
      return buttons.find((button) => button === answer);
    };
    await commands.executeCommand("sampleAgent.ask");
  }
  expect(questions).toHaveLength(2);
  expect(run).toHaveBeenCalledTimes(1);
  const said = (await all(running.api.shownSession!.history())).map(({ message }) => message);
  expect(said.map(({ role }) => role)).toEqual(["user", "assistant", "tool", "assistant", "user", "assistant", "tool", "assistant"]);
  expect(said[3]!["content"]).toBe("It said: done");
  expect(said[7]!["content"]).toBe("It said: The person did not allow it: not now");
});

test("an extension undoes and redoes, and asks for an approval that the user gives or refuses", async () => {
  const session = await running.api.openSession({ sessionId: "mine" });
  await session.append({ role: "user", content: "one" });
  const { uid } = await session.checkpoint();
  await session.append({ role: "user", content: "two" });
  await session.revert(uid);
  expect((await session.undo()).context).toMatchObject({ messageCount: 2, canRedo: 1 });
  expect((await session.redo()).context).toMatchObject({ messageCount: 1, canUndo: 1 });
  await expect(session.redo()).rejects.toMatchObject({ kind: "nothingToRedo" });
  user.answer = ({ buttons }) => buttons.find((button) => button === "Approve");
  expect(await session.requestApproval("run command", { description: "ls" })).toMatchObject({ decision: "approve", automatic: false });
  user.answer = () => undefined;
  const abort = new AbortController();
  const asked = session.requestApproval("run command", { description: "rm", signal: abort.signal });
  await vi.waitFor(() => expect(user.context.get("timeleap.approvals")).toBe(true), { timeout: 20_000 });
  abort.abort();
  await expect(asked).rejects.toMatchObject({ kind: "cancelled" });
  await vi.waitFor(() => expect(user.context.get("timeleap.approvals")).toBe(false), { timeout: 20_000 });
});

test("an extension is told before a revert, which waits for it, and hears afterwards what went, where to, and by whom", async () => {
  const session = await running.api.openSession({ sessionId: "mine" });
  await session.append({ role: "user", content: "one" });
  const { uid } = await session.checkpoint("before two");
  await session.append({ role: "user", content: "two" });
  const changes: unknown[] = [];
  session.onDidChangeContext(({ head, ...change }) => changes.push({ ...change, hasHead: head !== "" }));
  const told: unknown[] = [];
  session.onWillRevert(({ waitUntil, ...will }) => {
    told.push(will, session.state.context.messageCount);
    waitUntil(session.append({ role: "assistant", content: "stopped" }));
  });
  const { context, timelineId } = await session.revert(uid);
  expect(context.messageCount).toBe(1);
  await session.undo();
  expect(told).toEqual([{ kind: "revert", checkpointUid: uid }, 2, { kind: "undo", steps: 1 }, 1]);
  const by = { client: "timeleap-vscode", hasHead: true };
  expect(changes.slice(0, 2)).toEqual([
    { kind: "messagesAppended", messageIndex: 2, ...by },
    { kind: "reverted", checkpointUid: uid, timelineId, ...by },
  ]);
  // What was written before the turn stopped was set aside with the rest, and comes back with it.
  expect((await all(session.history())).map(({ message }) => message["content"])).toEqual(["one", "two", "stopped"]);
});
