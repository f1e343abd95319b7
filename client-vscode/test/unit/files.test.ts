import { detailsOfRows } from "../../src/features/details/details.js";
import { filesOf } from "../../src/kit/sessionFiles.js";
import { badgeOf } from "../../src/features/details/badges.js";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Memento } from "vscode";
import { TimeleapError, type Checkpoint, type FileChange, type FilesState, type SessionState } from "timeleap-client";
import { fileCommands } from "../../src/features/files/fileCommands.js";
import { wordsFor } from "../../src/core/commands/report.js";
import { FileContents, fileReferenceOf, fileUri, PIECE } from "../../src/features/files/fileContents.js";
import { PAGE } from "../../src/core/sessions/log.js";
import { Session } from "../../src/core/sessions/session.js";
import { Sessions } from "../../src/core/sessions/sessions.js";
import { diskPath, nameAndFolder, shownPath } from "../../src/shared/text/paths.js";
import { CheckpointsTree } from "../../src/core/tree/checkpointsTree.js";
import type { TreeNode } from "../../src/core/tree/node.js";
import { viewMessage } from "../../src/features/status/viewMessage.js";
import { EventEmitter, FileSystemError, log, Uri, user, workspace } from "../support/vscode.js";

beforeEach(() => user.reset());
afterEach(() => void vi.useRealTimers());

type Asked = Record<string, unknown> & { method: string };

const ROOT = "file:///project";
const FILES: FilesState = { mode: "checkpoint", roots: [ROOT], snapshots: 3, bytes: 0, exclude: ["*.log"], maxFiles: 7 };

const checkpoint = (id: number, files?: Checkpoint["files"]): Checkpoint => ({
  id, uid: `c${id}`, messageCount: id * 2, tokenCount: 0, label: `turn ${id}`, ...(files ? { files } : {}),
});

/** A session of a server whose answers are functions of the params. */
function sessionOf(answers: Record<string, (params: never) => unknown>, files = FILES) {
  const asked: Asked[] = [];
  const request = (method: string, params: object): Promise<unknown> => {
    asked.push({ method, ...params });
    const answer = answers[method];
    return answer ? Promise.resolve().then(() => answer(params as never)) : Promise.reject(new Error(`nobody asks ${method}`));
  };
  const state = { sessionId: "s", head: "h", access: "owner", archived: false, warnings: [], workspace: ROOT, pendingDMail: null, context: { messageCount: 6 }, files };
  return { asked, request, session: new Session({ request } as never, { sessionId: "s" }, { state: state as unknown as SessionState }, []) };
}

function treeOf(session: Session) {
  const tree = new CheckpointsTree({ shown: session } as never, () => Promise.resolve(true), { rows: [], parts: [detailsOfRows] });
  const rows = async (parent?: TreeNode) => (await tree.getChildren(parent)).map((node) => ({ node, item: tree.getTreeItem(node) }));
  return { tree, rows };
}

const CHECKPOINTS = [
  checkpoint(2, { snapshot: "f3-cc", changed: 4, skipped: 1, ms: 5 }),
  checkpoint(1, { snapshot: "f2-bb", changed: 0, skipped: 0, ms: 5 }),
  checkpoint(0, { snapshot: "f1-aa", changed: 9, skipped: 0, ms: 5 }),
];

const LISTED = { "context/listCheckpoints": () => ({ checkpoints: CHECKPOINTS }), "context/getHistory": () => ({ messages: [] }) };

const CHANGES: FileChange[] = [
  { path: "src/new.py", kind: "added", bytesTo: 12, binary: false },
  { path: "caf%E9 x.txt", pathEncoding: "percent", kind: "modified", bytesFrom: 3, bytesTo: 4, binary: true },
  { path: "old.py", kind: "deleted", bytesFrom: 5, binary: false },
  { path: "link", kind: "type", bytesFrom: 5, bytesTo: 5, binary: false },
  { path: "run.sh", kind: "mode", bytesFrom: 5, bytesTo: 5, binary: false },
];

// Rows

test("under a checkpoint stand the files that changed until the next one, and are asked for when somebody opens them", async () => {
  const { asked, session } = sessionOf({ ...LISTED, "files/diff": () => ({ changes: CHANGES }) });
  const { rows } = treeOf(session);
  const top = await rows();
  expect(badgeOf(top[1]!.item.resourceUri!)).toMatchObject({ badge: "4", tooltip: "4 files changed, files saved" });
  expect(badgeOf(top[0]!.item.resourceUri!)).toMatchObject({ badge: "◦", tooltip: "files saved" }); // nothing more is known of the newest until somebody looks
  const [changed] = await rows(top[1]!.node);
  expect(changed!.item).toMatchObject({ label: "Changed Files", description: "4", contextValue: "changedFiles" });
  expect(asked.some(({ method }) => method === "files/diff")).toBe(false);
  const files = await rows(changed!.node);
  expect(asked.at(-1)).toMatchObject({ from: { snapshot: "f2-bb" }, to: { snapshot: "f3-cc" }, limit: PAGE });
  expect(files.map(({ item }) => [item.label, item.description, (item.iconPath as { id: string }).id, item.contextValue])).toEqual([
    ["new.py", "src", "diff-added", "file.added"],
    ["caf\uFFFD x.txt", "", "diff-modified", "file.modified"],
    ["old.py", "", "diff-removed", "file.deleted"],
    ["link", "became another kind of file", "diff-renamed", "file.type"],
    ["run.sh", "other permissions", "lock", "file.mode"],
  ]);
  expect(files[1]!.item.tooltip).toContain("3 bytes → 4 bytes");
  expect(files[0]!.item.accessibilityInformation!.label).toBe("File: src/new.py, added");
});

test("where nothing changed until the next checkpoint there is no row; the newest one is compared with the disk", async () => {
  const { asked, session } = sessionOf({ ...LISTED, "files/diff": () => ({ changes: [] }) });
  const { rows } = treeOf(session);
  const [newest, , oldest] = await rows();
  expect((await rows(oldest!.node)).map(({ item }) => item.contextValue)).not.toContain("changedFiles");
  const [changed] = await rows(newest!.node);
  expect(changed!.item.description).toBe("until now"); // and how many, once somebody has asked
  expect((await rows(changed!.node)).map(({ item }) => item.label)).toEqual(["Nothing found"]);
  expect(asked.at(-1)).toMatchObject({ method: "files/diff", from: { snapshot: "f3-cc" }, to: {} });
});

test("how many files changed until now stands in the row once they are loaded, and that there are more", async () => {
  const page = { changes: CHANGES };
  const { session } = sessionOf({ ...LISTED, "files/diff": () => page });
  const { tree, rows } = treeOf(session);
  const told = new Promise((resolve) => tree.onDidChangeTreeData(resolve));
  const group = async () => (await rows((await rows())[0]!.node))[0]!;
  await rows((await group()).node);
  await told;
  expect((await group()).item.description).toBe("5 · until now");
  session.filesChanged();
  Object.assign(page, { nextCursor: "next" });
  tree.refresh();
  await rows((await group()).node);
  tree.refresh();
  expect((await group()).item.description).toBe("5+ · until now");
  tree.dispose();
});

test("checkpoints without snapshots have no such row, and one whose snapshot failed says so unless the view does", async () => {
  const error = { kind: "filesTooLarge", message: "too many files" };
  const listed = { ...LISTED, "context/listCheckpoints": () => ({ checkpoints: [checkpoint(1), checkpoint(0, { error })] }) };
  const { session } = sessionOf(listed);
  const { rows } = treeOf(session);
  const top = await rows();
  const below = [...(await rows(top[0]!.node)), ...(await rows(top[1]!.node))];
  expect(below.map(({ item }) => item.contextValue)).not.toContain("changedFiles");
  expect(top[1]!.item.description).toContain("files not saved");
  expect((top[1]!.item.tooltip as { value: string }).value).toContain("not saved: too many files");
  const said = treeOf(sessionOf(listed, { ...FILES, problem: error }).session);
  expect((await said.rows())[1]!.item.description).toBeUndefined();
});

test("many files come page by page", async () => {
  const page = (from: number, nextCursor?: string) => ({ changes: Array.from({ length: PAGE }, (_, index) => ({ path: `${from + index}.txt`, kind: "added", binary: false })), ...(nextCursor ? { nextCursor } : {}) });
  const { asked, session } = sessionOf({ ...LISTED, "files/diff": ({ cursor }: { cursor?: string }) => (cursor === undefined ? page(0, "next") : page(PAGE)) });
  const { tree, rows } = treeOf(session);
  const [changed] = await rows((await rows())[1]!.node);
  const first = await rows(changed!.node);
  expect(first).toHaveLength(PAGE + 1);
  expect(asked.filter(({ method }) => method === "files/diff")).toHaveLength(1);
  await (first.at(-1)!.node as unknown as { show(): Promise<void> }).show();
  expect(asked.at(-1)).toMatchObject({ cursor: "next" });
  expect(await rows(changed!.node)).toHaveLength(2 * PAGE);
  tree.dispose();
});

test("a list that is whole has no row for more of it where files change while it is on its way", async () => {
  const changing = (): object => {
    session.filesChanged(); // the notification comes with the answer, in one piece
    return { changes: CHANGES };
  };
  const { session } = sessionOf({ ...LISTED, "files/diff": changing });
  const { tree, rows } = treeOf(session);
  const [changed] = await rows((await rows())[0]!.node);
  const files = await rows(changed!.node);
  expect(files.map(({ item }) => item.contextValue)).toEqual(CHANGES.map(({ kind }) => `file.${kind}`));
  tree.dispose();
  session.dispose();
});

test("what is on the disk is asked for again after files were put back or saved, what snapshots say is not", async () => {
  const { asked, session } = sessionOf({ ...LISTED, "files/diff": () => ({ changes: [] }) });
  for (let round = 0; round < 2; round += 1) {
    await filesOf(session).changes("f1-aa", "f2-bb").list();
    await filesOf(session).changes("f3-cc", undefined).list();
    session.filesChanged();
  }
  expect(asked.map(({ to }) => to)).toEqual([{ snapshot: "f2-bb" }, {}, {}]);
  session.dispose();
});

test("the server's notifications about files reach the session they are about", async () => {
  const listeners = new Map<string, (params: object) => void>();
  const { session } = sessionOf({});
  const wire = {
    onNotification: (name: string, listener: (params: object) => void) => void listeners.set(name, listener),
    onDidConnect: new EventEmitter<undefined>().event,
    request: (method: string) => (method === "session/open" ? Promise.resolve(session.state) : new Promise(() => undefined)),
  };
  workspace.isTrusted = true;
  const sessions = new Sessions(wire as never, { get: () => undefined, update: () => Promise.resolve() } as unknown as Memento);
  const opened = await sessions.attach({ sessionId: "s" });
  const heard = vi.fn();
  opened.onDidChange(heard);
  for (const name of ["files/didSnapshot", "files/didRestore"]) {
    listeners.get(name)!({ sessionId: "s" });
    listeners.get(name)!({ sessionId: "another" });
  }
  expect(heard.mock.calls).toEqual([["files"], ["files"]]);
  opened.dispose();
});

// Why files are not saved

test.each([
  ["filesUnavailable", "noGit", "git 2.36 or newer"],
  ["filesUnavailable", "notConfigured", "the message"],
  ["filesUnavailable", "rootMissing", "the message"],
  ["filesUnavailable", "rootUnsafe", "the message"],
  ["filesUnavailable", "of a later version", "the message"],
  ["filesTooLarge", undefined, "the message"],
])("%s (%s) is said above the rows", (kind, reason, words) => {
  const problem = { kind, message: "the message", ...(reason === undefined ? {} : { reason }) };
  const say = (mode: FilesState["mode"]) => viewMessage({ server: { kind: "ready" } as never, recovered: undefined, stale: false, sessions: { shown: sessionOf({}, { ...FILES, mode, problem }).session, problem: undefined } });
  expect(say("turn")).toContain(words);
  expect(say("off")).toBeUndefined(); // nobody has asked for them
});

test("a restore that was left half done is said even where files are no longer saved", () => {
  const { session } = sessionOf({}, { ...FILES, mode: "off", problem: { kind: "filesIncomplete", message: "between f1-aa and f2-bb" } });
  expect(viewMessage({ server: { kind: "ready" } as never, recovered: undefined, stale: false, sessions: { shown: session, problem: undefined } })).toContain("between f1-aa and f2-bb");
});

test("errors about files are said as the server says them", () => {
  const words = (kind: "filesBusy" | "filesUnavailable" | "snapshotNotFound" | "filesConflict") => wordsFor(TimeleapError.make(kind, "the reason")).message;
  expect([words("filesBusy"), words("filesUnavailable"), words("snapshotNotFound")]).toEqual(Array(3).fill("The files cannot be used: the reason."));
  expect(words("filesConflict")).toBe("The reason.");
});

// Paths

test("a path is read as it is written; bytes that are no text have a mark", () => {
  expect(shownPath({ path: "a%20b" })).toBe("a%20b");
  expect(shownPath({ path: "a%20%FFb%", pathEncoding: "percent" })).toBe("a \uFFFDb%");
  expect(shownPath({ path: "two\nlines" })).toBe("two lines");
  expect(nameAndFolder({ path: "a/b/c.txt" })).toEqual(["c.txt", "a/b"]);
});

test.each(["../x", "a/../../x", "/etc/passwd", "", "a//b", "./a", "a\0b"])("%j is not looked for on the disk", (path) => {
  expect(diskPath({ path }, ROOT)).toBeUndefined();
});

test("a file is on the disk below its root, if the editor can name it", () => {
  expect(diskPath({ path: "a/b c.txt" }, ROOT)).toBe("/project/a/b c.txt");
  expect(diskPath({ path: "a", root: "file:///other" }, ROOT)).toBe("/other/a");
  expect(diskPath({ path: "a%FF", pathEncoding: "percent" }, ROOT)).toBeUndefined();
  expect(diskPath({ path: "a" }, undefined)).toBeUndefined();
  expect(diskPath({ path: "a" }, "vscode-vfs://github/a")).toBeUndefined();
});

// Contents

function contentsOf(answer: (params: { offset: number; length: number }) => unknown) {
  const { asked, session } = sessionOf({ "files/read": answer });
  const withOpen = (_: string, work: (session: Session) => unknown) => work(session);
  return { asked, contents: new FileContents({ withOpen } as never) };
}

test("a file of a snapshot is shown byte by byte, however large", async () => {
  const whole = Buffer.alloc(2 * PIECE + 5, 0xff);
  const { asked, contents } = contentsOf(({ offset, length }) => ({ content: whole.subarray(offset, offset + length).toString("base64"), bytes: whole.length, mode: 0o100644 }));
  const uri = fileUri({ session: "s", snapshot: "f1-aa", path: "a%FF.bin", pathEncoding: "percent", root: ROOT });
  expect((await contents.stat(uri)).size).toBe(whole.length);
  expect(Buffer.from(await contents.readFile(uri)).equals(whole)).toBe(true);
  expect(asked.map(({ offset }) => offset)).toEqual([0, 0, PIECE, 2 * PIECE]);
  expect(asked[0]).toMatchObject({ snapshot: "f1-aa", path: "a%FF.bin", pathEncoding: "percent", root: ROOT });
});

test("what was not there is empty, and nothing is asked for it", async () => {
  const { asked, contents } = contentsOf(() => undefined);
  const uri = fileUri({ session: "s", path: "new.py" });
  expect((await contents.stat(uri)).size).toBe(0);
  expect(await contents.readFile(uri)).toHaveLength(0);
  expect(asked).toEqual([]);
});

test("a server that sends less than it said does not hold the editor up for ever", async () => {
  const { contents } = contentsOf(({ offset }) => ({ content: offset === 0 ? "aaaa" : "", bytes: 99, mode: 0o100644 }));
  expect(await contents.readFile(fileUri({ session: "s", snapshot: "f1-aa", path: "x" }))).toHaveLength(3);
});

test("a snapshot that is no longer kept is a file that is not there, and nothing can be written", async () => {
  const { contents } = contentsOf(() => {
    throw TimeleapError.make("snapshotNotFound", "f1-aa was pruned");
  });
  const uri = fileUri({ session: "s", snapshot: "f1-aa", path: "x" });
  await expect(contents.stat(uri)).rejects.toMatchObject({ code: "FileNotFound" });
  for (const change of ["writeFile", "delete", "rename", "createDirectory"] as const) {
    expect(() => contents[change](uri)).toThrow(FileSystemError);
  }
});

test.each(["", "{", "null", '{"session":3,"path":"x"}', '{"session":"s"}'])("a URI with the query %s is no file of ours", (query) => {
  expect(fileReferenceOf(Uri.from({ scheme: "timeleap-files", path: "/x", query }) as never)).toBeUndefined();
});

// Commands

function benchOf(session: Session) {
  const views = { checkpoints: { selection: [] } };
  const sidecar = { request: (method: string, params: object) => session.request(method as never, params as never) };
  return fileCommands({ sessions: { shown: session }, views, sidecar, log: log() } as never, { remember: () => Promise.resolve() });
}

async function fileRows(session: Session, index: number): Promise<TreeNode[]> {
  const { rows } = treeOf(session);
  const [changed] = await rows((await rows())[index]!.node);
  return (await rows(changed!.node)).map(({ node }) => node);
}

/** Both sides of the diff editor that was opened last. */
const sides = () => (user.executed.findLast(({ command }) => command === "vscode.diff")!.args as Uri[]).slice(0, 2);

test("a changed file opens in the diff editor: what was not there is empty, the disk is the file itself", async () => {
  const { session } = sessionOf({ ...LISTED, "files/diff": () => ({ changes: CHANGES }) });
  const { openFileChange } = benchOf(session);
  const snapshotsOf = () => sides().map((uri) => fileReferenceOf(uri as never)?.snapshot);
  const between = await fileRows(session, 1);
  const seen: unknown[] = [];
  for (const row of between.slice(0, 3)) {
    await openFileChange!(row);
    seen.push(snapshotsOf());
  }
  expect(seen).toEqual([[undefined, "f3-cc"], ["f2-bb", "f3-cc"], ["f2-bb", undefined]]);
  const [added, percent, deleted] = await fileRows(session, 0);
  await openFileChange!(added);
  expect(sides()[1]!.toString()).toBe("file:///project/src/new.py");
  await openFileChange!(deleted);
  expect(snapshotsOf()).toEqual(["f3-cc", undefined]);
  await expect(openFileChange!(percent)).rejects.toThrow("not valid UTF-8");
  await expect(openFileChange!()).rejects.toThrow("There is nothing for “Changed Files”.");
});

test("a file is put back at once; where it is as it was that is said", async () => {
  const files = { after: "f2-bb", before: "f4-dd", added: 0, modified: 0, deleted: 0, kept: 0, conflicts: 0 };
  const plan = { ...files, modified: 1 };
  const { asked, session } = sessionOf({ ...LISTED, "files/diff": () => ({ changes: CHANGES }), "files/restore": () => ({ head: "h", files: plan }) });
  const { restoreFile } = benchOf(session);
  const [, percent] = await fileRows(session, 1);
  await restoreFile!(percent);
  const restores = () => asked.filter(({ method }) => method === "files/restore");
  const only = { to: { snapshot: "f2-bb" }, paths: ["caf%E9 x.txt"], pathEncoding: "percent" };
  expect(restores()).toMatchObject([{ ...only, dryRun: true }, only]);
  expect(restores().at(-1)).not.toHaveProperty("dryRun");
  expect(user.said.at(-1)).toMatchObject({ message: "The conversation is as it was. Files: 1 file changed back.", buttons: ["Undo"] });
  plan.modified = 0;
  await expect(restoreFile!(percent)).rejects.toThrow("Its text is the same");
});

test("switching files on for a session sends nothing but that, so that what it leaves out and its limits stay", async () => {
  const { asked, session } = sessionOf({ "session/open": ({ files }: { files: object }) => ({ ...session.state, files: { ...FILES, ...files } }) }, { ...FILES, mode: "off" });
  user.pick = (items) => items.find((item) => (item as { mode: string }).mode === "turn");
  await benchOf(session)["setFilesMode"]!();
  expect(asked).toEqual([{ method: "session/open", sessionId: "s", create: false, files: { mode: "turn" } }]);
  expect(session.state.files).toMatchObject({ mode: "turn", exclude: ["*.log"], maxFiles: 7 });
  await benchOf(session)["setFilesMode"]!(); // as it is already
  expect(asked).toHaveLength(1);
});

test("a session of no folder gets that of the window, and none where none is open; a problem is said", async () => {
  const problem = { kind: "filesUnavailable", reason: "noGit", message: "no git" };
  const { asked, session } = sessionOf({ "session/open": () => ({ ...session.state, files: { ...FILES, problem } }) }, { ...FILES, mode: "off", roots: [] });
  session.take({ ...session.state, workspace: undefined } as never);
  await expect(benchOf(session)["setFilesMode"]!()).rejects.toThrow("none is open in this window");
  workspace.workspaceFolders = [{ uri: Uri.file("/project"), name: "project", index: 0 }];
  await expect(benchOf(session)["setFilesMode"]!()).rejects.toThrow("git 2.36");
  expect(asked).toMatchObject([{ files: { mode: "checkpoint", roots: [ROOT] } }]);
});
