import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { ERROR_CODES, TimeleapError, type ErrorKind, type RestoredFiles } from "timeleap-client";
import { carryOut, chooseRestoring, decideRestoring, filesAmount, forecast, restoreFiles } from "../../src/kit/restoring.js";
import { Changes } from "../../src/core/restore/changes.js";
import { withLateProgress } from "../../src/shared/progress.js";
import { CancellationError, user } from "../support/vscode.js";

beforeEach(() => user.reset());
afterEach(() => void vi.useRealTimers());

const NONE: RestoredFiles = { after: "f1-aa", added: 0, modified: 0, deleted: 0, kept: 0, conflicts: 0 };
const QUESTION = { message: "Restore?", detail: "6 messages go.", button: "Restore", filesOnly: true };
const CONFLICT = { ...NONE, modified: 1, conflicts: 12, conflictPaths: Array.from({ length: 12 }, (_, index) => ({ path: `src/${index}.py` })) };

const error = (kind: ErrorKind, data: object = {}): TimeleapError => new TimeleapError(`the ${kind}`, ERROR_CODES[kind], { kind, retryable: false, ...data });

/** A session of a server that answers from a list; each request is noted. */
function sessionOf(snapshots: number, ...answers: unknown[]) {
  return sessionIn("off", snapshots, ...answers);
}

function sessionIn(mode: string, snapshots: number, ...answers: unknown[]) {
  const asked: Record<string, unknown>[] = [];
  const request = (method: string, params: object): Promise<unknown> => {
    asked.push({ method, ...params });
    const answer = answers.shift();
    return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
  };
  return { asked, session: { state: { files: { mode, snapshots, roots: [], bytes: 0 } }, request } as never };
}

test("where there are no snapshots nothing is asked of files", async () => {
  const { asked, session } = sessionOf(0, { head: "h1" });
  expect(await forecast(session, "context/revertTo", { checkpointUid: "c1" })).toEqual({ plan: { head: "h1" } });
  expect(asked).toEqual([{ method: "context/revertTo", checkpointUid: "c1", dryRun: true }]);
});

test("where there are some, one dry run says what happens to both", async () => {
  const { asked, session } = sessionOf(3, { head: "h1", files: NONE });
  expect((await forecast(session, "context/undo", {})).files).toEqual(NONE);
  expect(asked).toEqual([{ method: "context/undo", dryRun: true, restore: "both" }]);
});

test("where they are taken there may be the first one by now, and it is asked for", async () => {
  const { asked, session } = sessionIn("checkpoint", 0, { head: "h1", files: NONE });
  expect((await forecast(session, "context/undo", {})).files).toEqual(NONE);
  expect(asked).toHaveLength(1);
});

test.each(["filesUnavailable", "filesTooLarge", "filesBusy", "filesIncomplete"] as const)("%s keeps the files back and not the conversation", async (kind) => {
  const { asked, session } = sessionOf(3, error(kind), { head: "h1" });
  expect(await forecast(session, "context/undo", {})).toEqual({ plan: { head: "h1" }, unavailable: `the ${kind}` });
  expect(asked[1]).toEqual({ method: "context/undo", dryRun: true });
});

test("a state without a snapshot is gone back to without the files, and nobody is told of what was never there", async () => {
  const { session } = sessionOf(3, error("snapshotNotFound"), { head: "h1" });
  expect(await forecast(session, "context/undo", {})).toEqual({ plan: { head: "h1" } });
});

test("what else goes wrong in a dry run is not hidden", async () => {
  const { session } = sessionOf(3, error("checkpointNotFound"));
  await expect(forecast(session, "context/undo", {})).rejects.toThrow("checkpointNotFound");
});

test.each([
  ["Conversation Only", { restore: "conversation" }],
  ["Conversation and Files", { restore: "both" }],
  ["Files Only", { restore: "files" }],
  [undefined, undefined],
])("the question has three ways, with what happens to files: %s", async (button, restoring) => {
  user.answer = () => button;
  const files = { ...NONE, added: 2, modified: 1, deleted: 3 };
  expect(await chooseRestoring(QUESTION, { files })).toEqual(restoring);
  expect(user.said).toMatchObject([{ modal: true, buttons: ["Conversation and Files", "Conversation Only", "Files Only"] }]);
  expect(user.said[0]!.detail).toContain("2 files put back, 1 file changed back, 3 files removed");
});

test("where no file would change there is one question, as ever; and why files cannot go along is said in it", async () => {
  user.answer = () => "Restore";
  expect(await chooseRestoring(QUESTION, { files: NONE })).toEqual({ restore: "conversation" });
  expect(await chooseRestoring(QUESTION, { unavailable: "git was not found" })).toEqual({ restore: "conversation" });
  expect(user.said.map(({ buttons }) => buttons)).toEqual([["Restore"], ["Restore"]]);
  expect(user.said[1]!.detail).toContain("git was not found");
});

test.each([
  [undefined, undefined],
  ["Keep Mine", { restore: "both", onConflict: "keep" }],
  ["Overwrite; Undo Brings Them Back", { restore: "both", onConflict: "overwrite" }],
])("files that somebody changed are named and asked about, the safe choice first: %s", async (button, restoring) => {
  user.answer = ({ buttons }) => (buttons.includes("Conversation and Files") ? "Conversation and Files" : button);
  expect(await chooseRestoring(QUESTION, { files: CONFLICT })).toEqual(restoring);
  expect(user.said[1]!.buttons[0]).toBe("Keep Mine");
  expect(user.said[1]!.message).toContain("12 files");
  expect(user.said[1]!.detail).toContain("src/9.py\n… and 2 more");
  expect(user.said[1]!.detail).not.toContain("src/10.py");
});

test("nothing is asked where nobody is to be asked, but for files that somebody changed: with their names", async () => {
  user.answer = ({ buttons }) => buttons[1];
  expect(await decideRestoring(QUESTION, {}, false)).toEqual({ restore: "conversation" });
  expect(await decideRestoring(QUESTION, { files: NONE }, false)).toEqual({ restore: "conversation" });
  expect(await decideRestoring(QUESTION, { files: { ...NONE, modified: 2 } }, false)).toEqual({ restore: "both" });
  expect(user.said).toEqual([]);
  expect(await decideRestoring(QUESTION, { files: CONFLICT }, false)).toEqual({ restore: "both", onConflict: "overwrite" });
  expect(user.said).toMatchObject([{ modal: true, detail: expect.stringContaining("src/0.py") as string, buttons: ["Keep Mine", "Overwrite; Undo Brings Them Back"] }]);
});

test("the conversation alone goes back without a word about files that somebody changed", async () => {
  user.answer = () => "Conversation Only";
  expect(await chooseRestoring(QUESTION, { files: CONFLICT })).toEqual({ restore: "conversation" });
  expect(user.said).toHaveLength(1);
});

test("what was chosen is sent, and the conversation alone as it always was", async () => {
  const { asked, session } = sessionOf(1, {}, {});
  await carryOut(session, "context/undo", { expectedHead: "h1" }, { restore: "both", onConflict: "keep" });
  await carryOut(session, "context/undo", { expectedHead: "h1" }, { restore: "conversation" });
  expect(asked).toEqual([
    { method: "context/undo", expectedHead: "h1", restore: "both", onConflict: "keep" },
    { method: "context/undo", expectedHead: "h1" },
  ]);
});

test("a file that is changed between the question and the answer is asked about, too", async () => {
  const { asked, session } = sessionOf(1, error("filesConflict", { paths: ["caf%E9.txt"], more: 4, pathEncoding: "percent" }), { head: "h2" });
  user.answer = () => "Overwrite; Undo Brings Them Back";
  expect(await carryOut(session, "context/revertTo", { checkpointUid: "c1" }, { restore: "both" })).toEqual({ head: "h2" });
  expect(user.said[0]!.message).toContain("5 files");
  expect(user.said[0]!.detail).toContain("caf\uFFFD.txt");
  expect(asked[1]).toMatchObject({ restore: "both", onConflict: "overwrite" });
});

test("changing nothing then gives the change up", async () => {
  const { asked, session } = sessionOf(1, error("filesConflict", { paths: "not a list" }));
  user.answer = () => undefined;
  await expect(restoreFiles(session, "f1-aa")).rejects.toThrow(CancellationError);
  expect(asked).toEqual([{ method: "files/restore", to: { snapshot: "f1-aa" } }]);
});

test("one file is put back under the name the server gave it", async () => {
  const { asked, session } = sessionOf(1, {});
  await restoreFiles(session, "f1-aa", { path: "a%FF", pathEncoding: "percent", root: "file:///two" }, { onConflict: "keep" });
  expect(asked).toEqual([{ method: "files/restore", to: { snapshot: "f1-aa" }, paths: ["a%FF"], pathEncoding: "percent", root: "file:///two", onConflict: "keep" }]);
});

test("what happened to files is counted in words, and what did not is left out", () => {
  expect(filesAmount({ ...NONE, added: 1, kept: 2 })).toBe("1 file put back, 2 files kept as it is");
  expect(filesAmount(NONE)).toBe("");
});

// Progress

test("work that is done at once shows no progress; work that takes longer does, and Cancel reaches it", async () => {
  vi.useFakeTimers();
  await withLateProgress("Working…", () => Promise.resolve());
  await vi.advanceTimersByTimeAsync(5_000);
  expect(user.progress).toEqual([]);
  user.cancels = true;
  const work = withLateProgress("Working…", ({ options }) => new Promise((_, reject) => options.signal!.addEventListener("abort", () => reject(new CancellationError()))));
  const given = expect(work).rejects.toThrow(CancellationError);
  await vi.advanceTimersByTimeAsync(999);
  expect(user.progress).toEqual([]);
  await vi.advanceTimersByTimeAsync(1);
  expect(user.progress).toEqual(["Working…"]);
  await given;
});

test("the core alone changes the conversation as its dry run had it, asking only where that is wanted", async () => {
  const { make } = new Changes();
  const ask = (): typeof QUESTION => QUESTION;
  const { asked, session } = sessionOf(0, { head: "h1" }, { head: "h2" });
  expect(await make(session, "context/undo", {}, ask, false)).toEqual({ done: { head: "h2" }, also: "" });
  expect(asked).toEqual([{ method: "context/undo", dryRun: true }, { method: "context/undo", expectedHead: "h1" }]);
  expect(user.said).toEqual([]);
  user.answer = () => undefined;
  expect(await make(sessionOf(0, { head: "h1" }).session, "context/undo", {}, ask, true)).toBeUndefined();
});
