import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { seed, turns } from "../support/data.js";
import { start, type Running } from "../support/extension.js";
import { commands, user } from "../support/vscode.js";
import { agent, branches, labels, open, press } from "./support.js";

let running: Running;
let folder: string;

beforeEach(() => {
  user.reset();
  running = start();
  folder = mkdtempSync(join(tmpdir(), "timeleap-export-"));
});

afterEach(async () => {
  await running.stop();
  rmSync(folder, { recursive: true });
});

test("a session is written as Markdown, as a page and as an archive, of which the same session can be made", async () => {
  seed(running.home, "chat", [{ role: "_system_prompt", content: "Be brief." }, ...turns(700)]);
  await open("chat");
  user.path = join(folder, "chat.md");
  writeFileSync(user.path, "an earlier export"); // the dialog has asked whether to replace it
  user.pick = (items) => items.find((item) => (item as { label: string }).label === "Markdown");
  await commands.executeCommand("timeleap.exportSession");
  const text = readFileSync(user.path, "utf8");
  expect(text.startsWith("# chat\n")).toBe(true);
  expect(text).toContain("Be brief.");
  expect([...text.matchAll(/question (\d+)$/gm)].map(([, index]) => Number(index))).toEqual(Array.from({ length: 700 }, (_, index) => index));

  user.path = join(folder, "chat.html");
  user.pick = (items) => items.find((item) => (item as { label: string }).label === "HTML");
  press("Open");
  await commands.executeCommand("timeleap.exportSession");
  expect(readFileSync(user.path, "utf8")).toContain("<html");
  await vi.waitFor(() => expect(user.external).toEqual([user.path]), { timeout: 20_000 });

  user.path = join(folder, "chat.zip");
  user.pick = (items) => items.find((item) => (item as { label: string }).label === "ZIP");
  await commands.executeCommand("timeleap.exportSession");
  expect(readFileSync(user.path).subarray(0, 2).toString()).toBe("PK");
  await commands.executeCommand("timeleap.importSession");
  const session = running.api.shownSession!;
  expect(session.id).not.toBe("chat");
  expect(session.state.context.messageCount).toBe(1_400);
  expect(user.said.at(-1)).toMatchObject({ kind: "information" });
});

test("a file that is no session is refused in words, and what was shown stays", async () => {
  seed(running.home, "chat", turns(1));
  await open("chat");
  user.path = join(folder, "picture.png");
  writeFileSync(user.path, "not a session");
  await commands.executeCommand("timeleap.importSession");
  expect(user.said).toMatchObject([{ kind: "error" }]);
  expect(running.api.shownSession!.id).toBe("chat");
});

test("a D-Mail that waits is a row; delivered it is told apart, and Undo brings back what went", async () => {
  seed(running.home, "chat", turns(4));
  await open("chat");
  const other = await agent(running);
  try {
    await other.request("session/open", { sessionId: "chat" });
    await other.request("context/sendDMail", { sessionId: "chat", checkpointId: 2, message: "Do not\ntouch <b>." });
  } finally {
    await other.shutdown();
  }
  await vi.waitFor(async () => expect(labels(await running.rows("checkpoints"))[0]).toBe("Do not touch <b>."), { timeout: 10_000 });
  const [row, , target] = await running.rows("checkpoints");
  expect(row!.description).toBe("D-Mail for “question 2”, not delivered yet");
  expect(target).toMatchObject({ label: "question 2", description: expect.stringContaining("D-Mail") as string });
  expect(user.context.get("timeleap.dmail")).toBe(true);

  user.pick = (items) => items.find((item) => (item as { label: string }).label.includes("Drop"));
  press("Undo");
  await commands.executeCommand("timeleap.deliverDMail", row!.node);
  expect(user.said.at(-1)).toMatchObject({ message: "Dropped: Do not touch <b>.", buttons: ["Undo"] });
  await vi.waitFor(async () => expect(labels(await running.rows("checkpoints"))[0]).toBe("Do not touch <b>."), { timeout: 10_000 }); // it is back

  press();
  user.pick = (items) => items[0];
  await commands.executeCommand("timeleap.deliverDMail", row!.node);
  expect(user.said.at(-1)!.message).toBe("D-Mail delivered: 4 messages, 2 checkpoints, 200 tokens set aside.");
  const [arrived, before] = await running.rows("checkpoints");
  expect(arrived).toMatchObject({ label: "D-Mail", item: { iconPath: { id: "mail-read" } } });
  expect(before!.label).toBe("question 1");
  const [note] = await running.rows("checkpoints", arrived!.node);
  expect(note).toMatchObject({ label: "Do not touch <b>.", description: "D-Mail", item: { iconPath: { id: "mail-read" } } });
  expect((await branches(running))[0]).toMatchObject({ label: "4 messages: question 2 … answer 3", description: "now · Before going back" });
  expect(user.said.at(-1)).toMatchObject({ buttons: ["Undo"] });
  await commands.executeCommand("timeleap.deliverDMail");
  expect(user.said.at(-1)).toMatchObject({ kind: "warning", message: "There is nothing for “Deliver or Drop D-Mail”." });
});
