import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { seed, turns } from "../support/data.js";
import { start, type Running } from "../support/extension.js";
import { commands, lm, user, workspace } from "../support/vscode.js";
import { agent, chosen, labels, open, press, sessionList } from "./support.js";

let running: Running;

beforeEach(() => {
  user.reset();
  running = start();
});

afterEach(() => running.stop());

const described = async (name: string): Promise<string | undefined> => (await sessionList()).find(({ label }) => label === name)?.description;

test("a session is archived, deleted to the trash, and taken out again", async () => {
  const folder = seed(running.home, "chat", turns(1));
  await commands.executeCommand("timeleap.archive", await chosen("chat"));
  expect(await described("chat")).toContain("Archived");
  await commands.executeCommand("timeleap.unarchive", await chosen("chat"));
  expect(await described("chat")).not.toContain("Archived");
  await commands.executeCommand("timeleap.delete", await chosen("chat"));
  expect(existsSync(folder)).toBe(false);
  expect(await described("chat")).toBeUndefined();
  user.pick = (items) => items[0];
  await commands.executeCommand("timeleap.undelete");
  expect(existsSync(folder)).toBe(true);
  expect(user.said.filter(({ kind }) => kind === "error")).toEqual([]);
});

test("what can be done with a session that is not shown is chosen after it", async () => {
  seed(running.home, "chat", turns(1));
  seed(running.home, "other", turns(1));
  await open("other");
  const offered: string[] = [];
  user.pick = (items) => {
    const names = (items as { label: string }[]).map(({ label }) => label);
    offered.push(...names);
    return items[names.includes("chat") ? names.indexOf("chat") : names.indexOf("Copy ID")];
  };
  await commands.executeCommand("timeleap.manageSessions");
  expect(offered.slice(-9)).toEqual(["Open", "Open Conversation", "Rename…", "Fork…", "Archive", "Delete", "Export Session…", "Compare…", "Copy ID"]);
  expect(user.clipboard).toBe("chat");
  expect(running.api.shownSession!.id).toBe("other");
});

test("from the palette the shown session is deleted, and chosen from the trash again; Undo shows it again", async () => {
  const folder = seed(running.home, "chat", turns(1));
  await open("chat");
  await commands.executeCommand("timeleap.delete");
  expect(existsSync(folder)).toBe(false);
  await commands.executeCommand("timeleap.undelete");
  expect(existsSync(folder)).toBe(true);

  await open("chat");
  press("Undo");
  await commands.executeCommand("timeleap.delete");
  await vi.waitFor(() => expect(running.api.shownSession?.id).toBe("chat"), { timeout: 20_000 });
  expect(existsSync(folder)).toBe(true);
});

test("deleting the shown session leaves none shown", async () => {
  seed(running.home, "chat", turns(1));
  await open("chat");
  await commands.executeCommand("timeleap.delete", await chosen("chat"));
  expect(running.api.shownSession).toBeUndefined();
  expect(await running.rows("checkpoints")).toEqual([]);
  expect(user.context.get("timeleap.session")).toBe(false);
});

test("a title is set on a session that is not open, and it is not open afterwards", async () => {
  seed(running.home, "chat", turns(1));
  user.input = () => "Named";
  await commands.executeCommand("timeleap.setTitle", await chosen("chat"));
  expect(await described("Named")).not.toMatch(/open|shown/);
});

test("a folder of another program is opened to look at, and nothing in it is changed", async () => {
  const elsewhere = mkdtempSync(join(tmpdir(), "timeleap-foreign-"));
  onTestFinished(() => rmSync(elsewhere, { recursive: true }));
  const folder = seed(elsewhere, "theirs", turns(2));
  user.path = folder;
  user.pick = (items) => items.find((item) => /context\.jsonl|Look only/.test((item as { label: string }).label));
  await commands.executeCommand("timeleap.openSession");
  expect(labels(await running.rows("checkpoints"))).toEqual(["question 1", "question 0"]);
  expect(user.context.get("timeleap.writable")).toBe(false);
  expect(user.trees.get("timeleap.checkpoints")!.message).toContain("only be looked at");
  await commands.executeCommand("timeleap.createCheckpoint");
  expect(user.said.at(-1)!.message).toContain("only be looked at");
  expect(existsSync(join(folder, "timeleap.json"))).toBe(false);
});

test("closing leaves nothing shown; the id of a row can be copied", async () => {
  seed(running.home, "chat", turns(1));
  await open("chat");
  const [checkpoint] = await running.rows("checkpoints");
  await commands.executeCommand("timeleap.copyId", checkpoint!.node);
  expect(user.clipboard).toMatch(/^o0-/);
  await commands.executeCommand("timeleap.closeSession");
  expect(running.api.shownSession).toBeUndefined();
});

test("a session whose files are damaged is named as that, and says what to do", async () => {
  const folder = seed(running.home, "broken", turns(1));
  rmSync(join(folder, "context.jsonl"));
  mkdirSync(join(folder, "context.jsonl"));
  await open("broken");
  expect(running.api.shownSession).toBeUndefined();
  expect(user.context.get("timeleap.sessionProblem")).toBe("damaged");
  expect(user.trees.get("timeleap.checkpoints")!.message).toMatch(/^This session's files are damaged and cannot be used: context\.jsonl must be a regular file/);
  expect(labels(await running.rows("checkpoints"))).toEqual(["Try Again", "Open Session…", "Show Logs"]);
  expect(user.said).toEqual([]);
});

test("a session that is gone is named as that", async () => {
  seed(running.home, "chat", turns(1));
  const stale = await chosen("chat");
  rmSync(join(running.home, "sessions", "chat"), { recursive: true });
  await commands.executeCommand("timeleap.openSession", stale);
  expect(user.context.get("timeleap.sessionProblem")).toBe("gone");
});

const state = (id: string): { approval: { yolo: boolean; auto_approve_actions: string[] } } =>
  JSON.parse(readFileSync(join(running.home, "sessions", id, "state.json"), "utf8")) as ReturnType<typeof state>;

test("yolo asks first, is on disk, and shows", async () => {
  seed(running.home, "chat", turns(1));
  await open("chat");
  user.pick = (items) => items.find((item) => /YOLO|Ask again/.test((item as { label: string }).label));
  await commands.executeCommand("timeleap.manageApprovals");
  expect(user.said).toMatchObject([{ modal: true }]);
  expect(user.context.get("timeleap.yolo")).toBe(false);
  press("Approve Everything (YOLO)");
  await commands.executeCommand("timeleap.manageApprovals");
  expect(state("chat").approval.yolo).toBe(true);
  expect(user.context.get("timeleap.yolo")).toBe(true);
  const item = user.statusBar.find(({ id }) => id === "timeleap.approvals")!;
  expect(item.text).toContain("YOLO");
  expect(item.backgroundColor!.id).toBe("statusBarItem.errorBackground");
  await commands.executeCommand("timeleap.manageApprovals");
  expect(state("chat").approval.yolo).toBe(false);
  expect(item.visible).toBe(false);
});

test("an action that is approved is listed and revoked", async () => {
  seed(running.home, "chat", turns(1));
  await open("chat");
  const session = running.api.shownSession!;
  expect(await session.isApproved("run tests")).toBe(false);
  const client = await agent(running);
  await client.request("session/open", { sessionId: "chat" });
  await client.request("session/setAutoApprove", { sessionId: "chat", action: "run tests", enabled: true });
  expect(await session.isApproved("run tests")).toBe(true);
  user.pick = (items) => items.find((item) => (item as { label: string }).label.includes("run tests"));
  await commands.executeCommand("timeleap.manageApprovals");
  expect(state("chat").approval.auto_approve_actions).toEqual([]);
  await client.shutdown();
});

test("in Restricted Mode sessions are looked at only, until the workspace is trusted", async () => {
  seed(running.home, "chat", turns(1));
  workspace.isTrusted = false;
  await open("chat");
  expect(running.api.shownSession!.state.access).toBe("readOnly");
  press("Approve Everything (YOLO)", "Install the Timeleap Server", "Clear Conversation");
  user.pick = (items) => items.find((item) => (item as { label: string }).label.includes("YOLO"));
  const [row] = await running.rows("checkpoints");
  for (const [name, node] of [["manageApprovals"], ["createCheckpoint"], ["clear"], ["compact"], ["restore", row!.node], ["newSession"], ["installServer"], ["fork"]] as const) {
    user.said = [];
    await commands.executeCommand(`timeleap.${name}`, node);
    expect(user.said, name).toMatchObject([{ kind: "warning", modal: false, message: expect.stringContaining("Restricted Mode") as string }]);
  }
  workspace.grantTrust();
  await vi.waitFor(() => expect(running.api.shownSession!.state.access).toBe("owner"), { timeout: 10_000 });
  expect(user.context.get("timeleap.writable")).toBe(true);
});

test("a chat model of the editor writes the summary, where there is one", async () => {
  const folder = seed(running.home, "chat", turns(5));
  await open("chat");
  const asked: string[] = [];
  lm.models = [
    {
      sendRequest: (messages: { content: string }[]) => {
        asked.push(messages[0]!.content);
        return Promise.resolve({
          text: (async function* () {
            yield await Promise.resolve("short ");
            yield "summary";
          })(),
        });
      },
    },
  ];
  user.input = () => "";
  press("Compact");
  await commands.executeCommand("timeleap.compact");
  expect(asked[0]).toContain("question 0");
  expect(readFileSync(join(folder, "context.jsonl"), "utf8")).toContain("short summary");
});
