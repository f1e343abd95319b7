import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Methods, TimeleapClient } from "timeleap-client";
import { seed, turns } from "../support/data.js";
import { start, type Running } from "../support/extension.js";
import { commands, user, window, workspace } from "../support/vscode.js";
import { agent, labels, open, press } from "./support.js";
import { overPage } from "./fakePage.js";

let running: Running;
let asker: TimeleapClient;
const { showWarningMessage } = window;

beforeEach(async () => {
  user.reset();
  running = start();
  seed(running.home, "chat", turns(2));
  asker = await agent(running);
});

afterEach(async () => {
  window.showWarningMessage = showWarningMessage;
  await asker.shutdown();
  await running.stop();
});

type Asked = Partial<Methods["approval/request"]["params"]>;

const ask = (asked: Asked = {}): Promise<Methods["approval/request"]["result"]> =>
  asker.request("approval/request", { sessionId: "chat", action: "run command", description: "rm -rf build", ...asked });

/** Both have the session open. */
async function both(): Promise<void> {
  await open("chat");
  await asker.request("session/open", { sessionId: "chat" });
}

const rows = async (): Promise<string[]> => labels(await running.rows("checkpoints")).filter((label) => label.startsWith("Approval needed"));
const waits = (count: number): Promise<void> => vi.waitFor(async () => expect(await rows()).toHaveLength(count), { timeout: 20_000 });
const row = async (index = 0) => (await running.rows("checkpoints"))[index]!.node;
const item = () => user.statusBar.find(({ id }) => id === "timeleap.approvals")!;

test("what an agent asks for is a question, a row, a badge and in the status bar; Approve answers the agent", async () => {
  await both();
  let choose: (button: string) => void = () => undefined;
  window.showWarningMessage = ((message: string, ...buttons: string[]) => {
    user.said.push({ kind: "warning", message, detail: undefined, modal: false, buttons });
    return new Promise((resolve) => (choose = resolve));
  }) as never;
  const answered = ask({ detail: { command: "rm -rf build" } });
  await waits(1);
  expect(user.said).toMatchObject([{ message: '“chat” asks for your approval: run command – rm -rf build – {"command":"rm -rf build"}', buttons: ["Approve", "Approve for This Session", "Reject…"] }]);
  const [shown] = await running.rows("checkpoints");
  expect(shown).toMatchObject({ label: "Approval needed: run command", item: { contextValue: "approval" } });
  expect(shown!.item.accessibilityInformation!.label).toContain("Approval needed: run command, rm -rf build");
  expect(user.trees.get("timeleap.checkpoints")).toMatchObject({ badge: { value: 1 } });
  expect(item()).toMatchObject({ text: "$(question) Waiting for your decision: 1", command: { command: "timeleap.manageApprovals", arguments: ["waiting"] }, visible: true });
  expect(user.context.get("timeleap.approvals")).toBe(true);
  choose("Approve");
  expect(await answered).toMatchObject({ decision: "approve", automatic: false, decidedBy: { client: "timeleap-vscode" } });
  await waits(0);
  expect(user.trees.get("timeleap.checkpoints")).toMatchObject({ badge: undefined });
  expect(item().visible).toBe(false);
  expect(user.context.get("timeleap.approvals")).toBe(false);
});

test("a rejection carries its reason; Escape in the question for it decides nothing", async () => {
  await both();
  const answered = ask();
  await waits(1);
  user.pick = (items) => items.find((one) => (one as { label: string }).label.includes("Reject…"));
  await commands.executeCommand("timeleap.manageApprovals", await row());
  await waits(1);
  user.input = () => " not on Fridays ";
  await commands.executeCommand("timeleap.manageApprovals", await row());
  expect(await answered).toMatchObject({ decision: "reject", reason: "not on Fridays" });
});

test("approved for the session: the next one is not asked about, and it can be revoked", async () => {
  await both();
  press("Approve for This Session");
  expect(await ask()).toMatchObject({ decision: "approveForSession" });
  expect(await ask({ description: "make" })).toMatchObject({ decision: "approve", automatic: true });
  await vi.waitFor(() => expect(item().text).toBe("$(shield) Without asking: 1"), { timeout: 20_000 });
  expect(user.said.filter(({ buttons }) => buttons.includes("Approve"))).toHaveLength(1);
});

test("what somebody else decides is settled here, and a late press says so", async () => {
  await both();
  const other = await agent(running);
  await other.request("session/open", { sessionId: "chat" });
  let choose: (button: string) => void = () => undefined;
  window.showWarningMessage = ((message: string, ...buttons: string[]) => {
    user.said.push({ kind: "warning", message, detail: undefined, modal: false, buttons });
    return message.includes("asks for your approval") ? new Promise((resolve) => (choose = resolve)) : Promise.resolve(undefined);
  }) as never;
  const answered = ask();
  await waits(1);
  const [{ approvalId } = { approvalId: "" }] = (await other.request("approval/list", { sessionId: "chat" })).approvals;
  await other.request("approval/respond", { sessionId: "chat", approvalId, decision: "reject", reason: "no" });
  expect(await answered).toMatchObject({ decision: "reject", reason: "no" });
  await waits(0);
  choose("Approve");
  await vi.waitFor(() => expect(user.said.at(-1)!.message).toContain("needs no decision any more"), { timeout: 20_000 });
  await other.shutdown();
});

test("what waited before the session was opened here is asked about, one after the other", async () => {
  await asker.request("session/open", { sessionId: "chat" });
  const answers = [ask(), ask({ action: "write file", description: "a.py" })];
  await vi.waitFor(async () => expect((await asker.request("approval/list", { sessionId: "chat" })).approvals).toHaveLength(2), { timeout: 20_000 });
  const chosen: ((button: string) => void)[] = [];
  window.showWarningMessage = ((message: string, ...buttons: string[]) => {
    user.said.push({ kind: "warning", message, detail: undefined, modal: false, buttons });
    return new Promise((resolve) => chosen.push(resolve));
  }) as never;
  await open("chat");
  await waits(2);
  expect(user.said).toHaveLength(1);
  expect(user.trees.get("timeleap.checkpoints")).toMatchObject({ badge: { value: 2 } });
  chosen[0]!("Approve");
  expect(await answers[0]).toMatchObject({ decision: "approve" });
  await vi.waitFor(() => expect(user.said.at(-1)!.message).toContain("write file – a.py"), { timeout: 20_000 });
  chosen[1]!("Approve");
  expect(await answers[1]).toMatchObject({ decision: "approve" });
  await waits(0);
});

test("what is long or has more than a line is not approved with one press: all of it stands in its conversation as plain text", async () => {
  await both();
  press("Show All and Decide…");
  user.pick = (items) => items.find((one) => (one as { label: string }).label.includes("Approve"));
  const description = `<style>*{display:none}</style>\n[x](command:workbench.action.quit)\n${"echo ok; ".repeat(60)}rm -rf /`;
  expect(await ask({ description, detail: { cwd: "/" } })).toMatchObject({ decision: "approve" });
  expect(user.said[0]).toMatchObject({ buttons: ["Show All and Decide…", "Reject…"] });
  const [block, ...more] = overPage().sheet!.blocks as { kind: string; text: string }[];
  expect([block!.kind, more]).toEqual(["text", []]);
  expect(block!.text).toContain(description);
  expect(block!.text).toContain('{\n  "cwd": "/"\n}');
});

test("hostile words are text: no links, no icons, nothing that hides or turns around", async () => {
  await both();
  const action = "$(check) [Look](command:workbench.action.quit)\u202e";
  const answers = [ask({ action, description: "\u200bx\u2066" }), ask({ action, description: "y" })];
  await waits(2);
  for (const { message } of user.said) {
    expect(message).not.toMatch(/\]\(command:|[\u200b-\u200f\u202a-\u202e\u2066-\u2069]/u);
  }
  expect(user.said[0]!.buttons).not.toContain("Approve"); // what it shows is not what was sent
  const offered: { label: string; description?: string; detail?: string }[] = [];
  user.pick = (items) => {
    offered.push(...(items as typeof offered));
    return undefined;
  };
  await commands.executeCommand("timeleap.manageApprovals", "waiting");
  expect(offered).toHaveLength(2);
  expect(offered.filter(({ label, description, detail }) => /(?<!\\)\$\(/.test(`${label}${description}${detail}`))).toEqual([]);
  user.input = () => "";
  user.pick = (items) => items.find((one) => (one as { label: string }).label.includes("Reject…"));
  await commands.executeCommand("timeleap.manageApprovals", await row(0));
  await commands.executeCommand("timeleap.manageApprovals", await row(0));
  await Promise.all(answers);
});

test("an asker that goes away takes its question along", async () => {
  await both();
  const other = await agent(running);
  await other.request("session/open", { sessionId: "chat" });
  const asked = other.request("approval/request", { sessionId: "chat", action: "run command" }).catch(() => undefined);
  await waits(1);
  await other.shutdown();
  await asked;
  await waits(0);
});

test("in Restricted Mode nothing is approved", async () => {
  workspace.isTrusted = false;
  await asker.request("session/open", { sessionId: "chat" });
  await open("chat");
  press("Approve");
  const asked = ask({ timeout: 600 }).catch(() => undefined);
  await waits(1);
  await vi.waitFor(() => expect(user.said.at(-1)!.message).toContain("Restricted Mode"), { timeout: 20_000 });
  await waits(1);
  await asker.shutdown();
  await asked;
});

test("away: what is asked for is rejected at once, it is shown, and can be taken back", async () => {
  await both();
  user.pick = (items) => items.find((one) => (one as { label: string }).label.includes("Away"));
  await commands.executeCommand("timeleap.manageApprovals");
  await vi.waitFor(() => expect(item().text).toBe("$(sign-out) Away: requests are rejected"), { timeout: 20_000 });
  expect(user.context.get("timeleap.afk")).toBe(true);
  expect(await ask()).toMatchObject({ decision: "reject", reason: "afk", automatic: true });
  user.pick = (items) => items.find((one) => (one as { label: string }).label.includes("I am back"));
  await commands.executeCommand("timeleap.manageApprovals");
  await vi.waitFor(() => expect(user.context.get("timeleap.afk")).toBe(false), { timeout: 20_000 });
  press("Approve");
  expect(await ask()).toMatchObject({ decision: "approve", automatic: false });
});
