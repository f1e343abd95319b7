import { afterEach, beforeEach, expect, test } from "vitest";
import { commands, user } from "../support/vscode.js";
import { start, type Running } from "../support/extension.js";

let running: Running;

beforeEach(() => {
  user.reset();
  running = start();
});

afterEach(() => running.stop());

test("without a session the trees are empty, and the context keys say that there is a server", async () => {
  expect(await running.rows("checkpoints")).toEqual([]);
  expect(await running.rows("sessions")).toEqual([]);
  expect(user.context.get("timeleap.ready")).toBe(true);
  expect(user.context.get("timeleap.session")).toBe(false);
});

test("a new session is shown, and its checkpoints appear as they are written", async () => {
  user.input = () => "A session";
  await commands.executeCommand("timeleap.newSession");
  user.input = () => "first step";
  await commands.executeCommand("timeleap.createCheckpoint");
  const [row] = await running.rows("checkpoints");
  expect(row?.label).toBe("first step");
  expect(user.said).toEqual([]);
});
