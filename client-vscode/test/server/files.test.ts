import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { start, type Row, type Running } from "../support/extension.js";
import { commands, Uri, user, workspace } from "../support/vscode.js";
import { agent, labels, press, pressOnce } from "./support.js";
import { FakePage, WAIT } from "./fakePage.js";

let running: Running;
let folder: string;

beforeEach(() => {
  user.reset();
  folder = mkdtempSync(join(tmpdir(), "timeleap-project-"));
  workspace.workspaceFolders = [{ uri: Uri.file(folder), name: "project", index: 0 }];
  write("keep.txt", "as ever\n");
  write("app.py", "print('first')\n");
  write("gone.py", "soon\n");
  running = start();
});

afterEach(async () => {
  await running.stop();
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
});

const write = (name: string, text: string | Buffer): void => writeFileSync(join(folder, name), text);
const read = (name: string): string => readFileSync(join(folder, name), "utf8");
const names = (): string[] => readdirSync(folder).sort();
const log = (): string => readFileSync(join(running.home, "sessions", running.api.shownSession!.id, "context.jsonl"), "utf8");

/** A session whose files are saved at each checkpoint: two turns, of which the second changes, adds and removes a file. */
async function twoTurns(): Promise<void> {
  user.settings.set("timeleap.files.mode", "checkpoint");
  const session = await running.api.openSession({ workspace: pathToFileURL(folder).href });
  await session.checkpoint("first");
  await session.append({ role: "user", content: "question" }, { role: "assistant", content: "answer" });
  await session.checkpoint("second");
  await session.append({ role: "user", content: "go on" });
  write("app.py", "print('second')\n");
  write("new.bin", Buffer.from([0, 255, 1]));
  rmSync(join(folder, "gone.py"));
  await session.append({ role: "assistant", content: "done" });
}

const AFTER = ["app.py", "keep.txt", "new.bin"];
const BEFORE = ["app.py", "gone.py", "keep.txt"];

async function row(label: string, parent?: Row): Promise<Row> {
  let found: Row | undefined;
  await vi.waitFor(async () => {
    found = (await running.rows("checkpoints", parent?.node)).find((candidate) => candidate.label === label);
    expect(found).toBeDefined();
  }, { timeout: 20_000 });
  return found!;
}

const changed = async (checkpoint: string): Promise<Row> => row("Changed Files", await row(checkpoint));
const restoreTo = async (checkpoint: string, how = "restore"): Promise<unknown> => commands.executeCommand(`timeleap.${how}`, (await row(checkpoint)).node);

test("what changed since a checkpoint is listed and opens as a difference of contents, binary files too", async () => {
  await twoTurns();
  const files = await running.rows("checkpoints", (await changed("second")).node);
  expect(files.map(({ label, item }) => [label, item.contextValue])).toEqual([["app.py", "file.modified"], ["gone.py", "file.deleted"], ["new.bin", "file.added"]]);
  const sides: string[][] = [];
  for (const { node } of files) {
    await commands.executeCommand("timeleap.openFileChange", node);
    const [left, right] = user.executed.findLast(({ command }) => command === "vscode.diff")!.args as Uri[];
    sides.push([Buffer.from(await workspace.fs.readFile(left!)).toString("latin1"), Buffer.from(await workspace.fs.readFile(right!)).toString("latin1")]);
  }
  expect(sides).toEqual([["print('first')\n", "print('second')\n"], ["soon\n", ""], ["", "\0\u00ff\u0001"]]);
});

test("the page names the files that a turn changed, shows their lines, and opens the editor's own view of them", async () => {
  await twoTurns();
  await commands.executeCommand("timeleap.openConversation");
  await vi.waitFor(() => expect(user.panels).toHaveLength(1), WAIT);
  const page = new FakePage();
  page.say({ kind: "ready" });
  const { checkpoints: [first, second] } = await page.next("checkpoints");
  expect([first, second]).toMatchObject([{ saved: true, turn: true }, { saved: true, turn: true }]);
  const turn = { from: second!.uid };
  page.say({ kind: "files", span: turn });
  const named = [{ kind: "modified", path: "app.py" }, { kind: "deleted", path: "gone.py" }, { kind: "added", path: "new.bin", binary: true }];
  expect(await page.next("files")).toEqual({ kind: "files", span: turn, files: named, more: 0 });
  const lines = async (file: number): Promise<object> => {
    page.forget();
    page.say({ kind: "fileDiff", span: turn, file });
    return page.next("fileDiff");
  };
  expect(await lines(0)).toMatchObject({ before: "print('first')\n", after: "print('second')\n" });
  expect(await lines(1)).toMatchObject({ before: "soon\n", after: "" });
  expect(await lines(2)).toMatchObject({ problem: "This is no text, or too long to be shown here; the diff editor shows it." });
  expect(await lines(9)).toMatchObject({ problem: "This cannot be shown." });
  page.forget();
  page.say({ kind: "files", span: { from: first!.uid, to: second!.uid } });
  expect((await page.next("files")).files).toEqual([]);
  page.say({ kind: "openDiff", span: turn, file: 0 });
  await vi.waitFor(() => expect(user.executed.some(({ command }) => command === "vscode.diff")).toBe(true), WAIT);
  const [left, right] = user.executed.findLast(({ command }) => command === "vscode.diff")!.args as Uri[];
  expect([left, right].map((uri) => uri!.scheme)).toEqual(["timeleap-files", "file"]);
});

test("the conversation and the files go back together, and Undo brings every byte of both", async () => {
  await twoTurns();
  const before = log();
  press("Undo");
  await restoreTo("second");
  await vi.waitFor(() => expect(user.said.some(({ message }) => message.startsWith("Undone"))).toBe(true), { timeout: 20_000 });
  expect(user.said.map(({ modal }) => modal)).toEqual([false, false]);
  for (const { message } of user.said) {
    expect(message).toContain("Files: 1 file put back, 1 file changed back, 1 file removed.");
  }
  await vi.waitFor(() => expect(log()).toBe(before), { timeout: 20_000 });
  await vi.waitFor(() => expect(names()).toEqual(AFTER), { timeout: 20_000 });
  expect(read("app.py")).toBe("print('second')\n");
});

test("the conversation alone leaves the files, the files alone leave the conversation", async () => {
  await twoTurns();
  const before = log();
  press("Files Only");
  await restoreTo("second", "restoreWithOptions");
  expect(log()).toBe(before);
  expect(names()).toEqual(BEFORE);
  expect(read("app.py")).toBe("print('first')\n");
  expect(user.said.at(-1)).toMatchObject({ message: expect.stringContaining("The conversation is as it was.") as string, buttons: ["Undo"] });
  write("app.py", "mine\n");
  press("Conversation Only");
  await restoreTo("second", "restoreWithOptions");
  expect(log()).not.toBe(before);
  expect(read("app.py")).toBe("mine\n");
});

test("undo and redo take files along", async () => {
  await twoTurns();
  await restoreTo("second");
  expect(names()).toEqual(BEFORE);
  await commands.executeCommand("timeleap.undo");
  expect(names()).toEqual(AFTER);
  await commands.executeCommand("timeleap.redo");
  expect(names()).toEqual(BEFORE);
  expect(user.said.filter(({ modal }) => modal)).toEqual([]);
});

test.each([
  [undefined, "mine\n", AFTER],
  ["Keep Mine", "mine\n", BEFORE],
  ["Overwrite; Undo Brings Them Back", "print('first')\n", BEFORE],
] as const)("a file that somebody changed after the turn is asked about: %s", async (button, text, there) => {
  await twoTurns();
  const before = log();
  write("app.py", "mine\n");
  press(...(button === undefined ? [] : [button]));
  await restoreTo("second");
  expect(user.said[0]).toMatchObject({ modal: true, buttons: ["Keep Mine", "Overwrite; Undo Brings Them Back"] });
  expect(user.said[0]!.detail).toContain("app.py");
  expect(names()).toEqual(there);
  expect(read("app.py")).toBe(text);
  expect(log() === before).toBe(button === undefined);
});

test("one file is put back, and that is undone", async () => {
  await twoTurns();
  const [app] = await running.rows("checkpoints", (await changed("second")).node);
  pressOnce("Undo");
  await commands.executeCommand("timeleap.restoreFile", app!.node);
  await vi.waitFor(() => expect(user.said.filter(({ modal }) => !modal)).toHaveLength(2), { timeout: 20_000 });
  expect(user.said.filter(({ modal }) => modal)).toEqual([]);
  expect(user.said[1]!.message).toContain("1 file changed back");
  expect(read("app.py")).toBe("print('second')\n");
  expect(names()).toEqual(AFTER);
});

test("files that were put back by somebody else are seen at once", async () => {
  await twoTurns();
  await running.rows("checkpoints", (await changed("second")).node);
  const { state, id } = running.api.shownSession!;
  expect(state.files).toMatchObject({ mode: "checkpoint" });
  const heard: string[] = [];
  running.api.shownSession!.onDidChange((event) => heard.push(event));
  press("Files Only");
  await restoreTo("second", "restoreWithOptions");
  await vi.waitFor(() => expect(heard).toContain("files"), { timeout: 20_000 });
  const later = await changed("second");
  await vi.waitFor(async () => expect(labels(await running.rows("checkpoints", later.node))).toEqual(["Nothing found"]), { timeout: 20_000 });
  expect(id).toBe(running.api.shownSession!.id);
});

test("a session that exists saves files once that is switched on, and what it leaves out stays left out", async () => {
  write("secret.env", "token\n");
  const session = await running.api.openSession({ workspace: pathToFileURL(folder).href, files: { mode: "checkpoint", exclude: ["*.env"], maxFiles: 50 } });
  for (const mode of ["off", "turn"]) {
    user.pick = (items) => items.find((item) => (item as { mode?: string }).mode === mode);
    await commands.executeCommand("timeleap.setFilesMode");
    expect(session.state.files).toMatchObject({ mode, exclude: ["*.env"], maxFiles: 50 });
  }
  await session.checkpoint("one");
  write("secret.env", "another\n");
  write("app.py", "more\n");
  await session.append({ role: "user", content: "x" });
  expect(labels(await running.rows("checkpoints", (await changed("one")).node))).toEqual(["app.py"]);
});

test("a name that is not UTF-8 is shown, and what it held is read", async () => {
  user.settings.set("timeleap.files.mode", "checkpoint");
  const session = await running.api.openSession({ workspace: pathToFileURL(folder).href });
  const odd = Buffer.concat([Buffer.from(`${folder}/caf`), Buffer.from([0xe9]), Buffer.from(".txt")]);
  writeFileSync(odd, "latin\n");
  await session.checkpoint("one");
  rmSync(odd);
  await session.append({ role: "user", content: "x" });
  const [file] = await running.rows("checkpoints", (await changed("one")).node);
  expect(file).toMatchObject({ label: "caf\uFFFD.txt", item: { contextValue: "file.deleted" } });
  await commands.executeCommand("timeleap.openFileChange", file!.node);
  const [left] = user.executed.findLast(({ command }) => command === "vscode.diff")!.args as Uri[];
  expect(Buffer.from(await workspace.fs.readFile(left!)).toString()).toBe("latin\n");
});

test("a D-Mail takes the files along to the checkpoint it is for", async () => {
  await twoTurns();
  const { id } = running.api.shownSession!;
  const other = await agent(running);
  try {
    await other.request("session/open", { sessionId: id, create: false });
    await other.request("context/sendDMail", { sessionId: id, checkpointId: 1, message: "Do not touch app.py." });
    await vi.waitFor(() => expect(running.api.shownSession!.state.pendingDMail).not.toBeNull(), { timeout: 20_000 });
  } finally {
    await other.shutdown(); // before the store is removed: it may be packing snapshots
  }
  press();
  await commands.executeCommand("timeleap.deliverDMail", "deliver");
  expect(user.said.at(-1)!.message).toContain("1 file put back, 1 file changed back, 1 file removed");
  expect(names()).toEqual(BEFORE);
  expect(log()).toContain("Do not touch app.py.");
});

test("in a git folder the files of a conversation that was there come back with it after one sentence of consent", async () => {
  mkdirSync(join(folder, ".git"));
  const other = await agent(running);
  await other.request("session/open", { sessionId: "shop", workspace: pathToFileURL(folder).href, title: "Shop" });
  await other.shutdown();
  pressOnce("Save Files");
  const session = await running.api.openSession({ sessionId: "shop" });
  await vi.waitFor(() => expect(session.state.files).toMatchObject({ mode: "checkpoint" }), { timeout: 20_000 });
  await session.checkpoint("first");
  await session.append({ role: "user", content: "tidy up" });
  write("app.py", "broken\n");
  await session.append({ role: "assistant", content: "done" });
  await restoreTo("first");
  expect(read("app.py")).toBe("print('first')\n");
});

test("without git that is said once, and everything else works", async () => {
  const path = process.env["PATH"]!;
  onTestFinished(() => void (process.env["PATH"] = path));
  process.env["PATH"] = withoutGit(path);
  await twoTurns();
  const rows = await running.rows("checkpoints");
  expect(labels(rows)).toEqual(["second", "first"]);
  await vi.waitFor(() => expect(user.trees.get("timeleap.checkpoints")!.message).toContain("git 2.36 or newer"), { timeout: 20_000 });
  expect(rows.map(({ description }) => description).join(" ")).not.toContain("files not saved");
  expect(user.said).toEqual([]);
  await commands.executeCommand("timeleap.restore", rows[0]!.node);
  expect(log()).not.toContain("go on");
  expect(names()).toEqual(AFTER);
});

/** A PATH with everything that this one has but git. */
function withoutGit(path: string): string {
  const tools = join(folder, "..", `${folder.split("/").at(-1)!}-tools`);
  mkdirSync(tools);
  onTestFinished(() => rmSync(tools, { recursive: true, force: true }));
  for (const name of ["python3", "sh", "env"]) {
    symlinkSync(execFileSync("/bin/sh", ["-c", `command -v ${name}`], { encoding: "utf8", env: { PATH: path } }).trim(), join(tools, name));
  }
  return [tools].join(delimiter);
}
