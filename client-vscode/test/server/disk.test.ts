import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { seed, turns } from "../support/data.js";
import { start, type Running } from "../support/extension.js";
import { commands, user } from "../support/vscode.js";
import { labels, open } from "./support.js";

let running: Running | undefined;
let home: string;

beforeEach(() => {
  user.reset();
  home = mkdtempSync(join(tmpdir(), "timeleap-disk-"));
});

afterEach(async () => {
  delete process.env["TIMELEAP_FAILPOINTS"];
  await running?.close();
  running = undefined;
  mount("-u");
  rmSync(home, { recursive: true, force: true, maxRetries: 5 });
});

/** A disk of its own; false: this user may not. */
function mount(...options: readonly string[]): boolean {
  const [command, ...args] = options[0] === "-u" ? ["umount", home] : ["mount", ...options, "tmpfs", home];
  return spawnSync(command, args, { stdio: "ignore" }).status === 0;
}

test("a change that finds the disk full is not made, and that is said in words", async () => {
  process.env["TIMELEAP_FAILPOINTS"] = "append.before_write=raise:ENOSPC";
  running = start(undefined, home);
  seed(home, "chat", turns(2));
  await open("chat");
  user.input = () => "before the refactoring";
  await commands.executeCommand("timeleap.createCheckpoint");
  expect(user.said).toMatchObject([{ kind: "error", message: expect.stringMatching(/^The disk is full.* Nothing was changed\. Make room/) as string }]);
  expect(labels(await running.rows("checkpoints"))).toEqual(["question 1", "question 0"]);
});

test("on a read-only disk a session is read, and changed as soon as the disk can be written to", async ({ skip }) => {
  skip(!mount("-t", "tmpfs", "-o", "size=4m"), "only root can mount a disk");
  seed(home, "chat", turns(2));
  mount("-o", "remount,ro");
  running = start(undefined, home);
  await open("chat");
  expect(labels(await running.rows("checkpoints"))).toEqual(["question 1", "question 0"]);
  expect(running.api.shownSession?.state.access).toBe("readOnly");
  const view = user.trees.get("timeleap.checkpoints")!;
  expect(view.message).toMatch(/^The disk is read-only: .* This session can only be looked at here\./);
  expect(user.said).toEqual([]); // the view says it
  await commands.executeCommand("timeleap.createCheckpoint");
  expect(user.said.at(-1)).toMatchObject({ kind: "warning", buttons: ["Refresh"], message: expect.stringContaining("The disk is read-only") as string });
  user.input = () => "a new one";
  await commands.executeCommand("timeleap.newSession");
  expect(view.message).toMatch(/^The disk is read-only: .* The session could not be opened\. Change that/);
  expect(labels(await running.rows("checkpoints"))).toEqual(["Try Again", "Open Session…", "Open Settings", "Show Logs"]);
  expect(user.said).toHaveLength(1);
  expect(user.context.get("timeleap.sessionProblem")).toBe("diskReadOnly");

  await open("chat");
  mount("-o", "remount,rw");
  await commands.executeCommand("timeleap.reloadSession");
  expect(view.message).toBeUndefined();
  user.input = () => "can be written";
  await commands.executeCommand("timeleap.createCheckpoint");
  expect(labels(await running.rows("checkpoints"))[0]).toBe("can be written");
});
