import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { seed, turns } from "../support/data.js";
import { commands, user } from "../support/vscode.js";
import { start, type Running } from "../support/extension.js";
import { answersOfStandby, open } from "./support.js";

let running: Running;

beforeEach(() => {
  user.reset();
  running = start();
});

afterEach(async () => {
  vi.restoreAllMocks();
  await running.stop();
});

test("without a session the trees are empty, and the context keys say that there is a server", async () => {
  expect(await running.rows("checkpoints")).toEqual([]);
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

test("while a standby answers, the views and the status bar say that changes may be missing; then all is read again", async () => {
  seed(running.home, "chat", turns(2));
  await open("chat");
  const heads = [user.trees.get("timeleap.checkpoints")!];
  const tokens = user.statusBar.find(({ id }) => id === "timeleap.tokens")!;
  const said = (): string[] => [...heads.map(({ message }) => message), (tokens.tooltip as { value: string }).value, tokens.accessibilityInformation?.label].map(String);
  const marked = /no primary of the database answered/;
  for (const text of said()) {
    expect(text).not.toMatch(marked);
  }
  const standby = answersOfStandby();
  const { asked } = standby;
  const read = (): Promise<unknown> => running.api.shownSession!.history()[Symbol.asyncIterator]().next();
  await read();
  await vi.waitFor(() => said().forEach((text) => expect(text).toMatch(marked)));
  expect(asked.filter((method) => method !== "session/getState")).toEqual(["context/getHistory"]); // the window may still be reading its state
  standby.answers = false;
  asked.length = 0;
  await read();
  await vi.waitFor(() => expect(asked).toContain("session/getState"));
  await vi.waitFor(() => said().forEach((text) => expect(text).not.toMatch(marked)));
});
