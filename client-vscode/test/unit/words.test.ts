import { homedir } from "node:os";
import { join } from "node:path";
import { beforeEach, expect, test, vi } from "vitest";
import { ERROR_CODES, TimeleapError, type ErrorKind } from "timeleap-client";
import { isStale, Refusal, report, wordsFor } from "../../src/core/commands/report.js";
import { reload } from "../../src/shared/text/errorWords.js";
import { writableSession } from "../../src/core/commands/targets.js";
import { ServerFailure, type FailureKind } from "../../src/core/server/failure.js";
import type { SidecarState } from "../../src/core/server/sidecar.js";
import type { SessionProblem, Sessions } from "../../src/core/sessions/sessions.js";
import { oneLine, relativeTime, short, tokens } from "../../src/shared/text/format.js";
import { inShort } from "../../src/shared/text/paths.js";
import { sayInPlace } from "../../src/shared/text/say.js";
import { deletionOf } from "../../src/shared/text/sources.js";
import { warningInWords } from "../../src/shared/text/warnings.js";
import { MoreNode, treeItem } from "../../src/core/tree/node.js";
import { tokensShown } from "../../src/features/status/statusBar.js";
import { waysOut } from "../../src/features/status/wayOut.js";
import { serverMessage, viewMessage } from "../../src/features/status/viewMessage.js";
import { titleOf, toolName, verbOf } from "../../src/shared/text/titles.js";
import { CancellationError, env, extensions, log, user, workspace } from "../support/vscode.js";

beforeEach(() => {
  user.reset();
  env.language = "en";
  vi.useRealTimers();
});

// Titles

test("a button is called as its command is, also where the editor keeps the English title beside the translated one", () => {
  const text = (value: string, original: string): object => ({ value, original });
  const contributes = {
    commands: [{ command: "timeleap.undo", title: text("撤销", "Undo") }, { command: "timeleap.compare", title: text("比较…", "Compare…") }],
    languageModelTools: [{ name: "timeleap_search", displayName: text("搜索", "Search") }],
  };
  extensions.known.set("timeleap.timeleap", { packageJSON: { contributes } } as never);
  expect([titleOf("undo"), titleOf("compare"), verbOf("compare"), toolName("search"), verbOf("unknown")]).toEqual(["撤销", "比较…", "比较", "搜索", "unknown"]);
});

test("a path in the user's own directory is said in its short form, another as it is", () => {
  expect([inShort(join(homedir(), ".claude", "settings.json")), inShort("/etc/x"), inShort(`${homedir()}-other/x`)]).toEqual([join("~", ".claude", "settings.json"), "/etc/x", `${homedir()}-other/x`]);
});

// What is said when something fails

const kinds = Object.keys(ERROR_CODES) as ErrorKind[];

test.each(kinds)("the server's %s is said in words", (kind) => {
  const { message } = wordsFor(TimeleapError.make(kind, "the reason"));
  expect(message.length).toBeGreaterThan(5);
});

test("a command that found something stale refreshes the views and says so", async () => {
  const refresh = vi.fn(() => Promise.resolve());
  const bench = { log: log(), views: { refresh }, sessions: {} } as never;
  for (const kind of ["contentModified", "checkpointNotFound", "timelineNotFound"] as const) {
    expect(isStale(TimeleapError.make(kind, "x"))).toBe(true);
    await report(TimeleapError.make(kind, "x"), bench);
  }
  expect(refresh).toHaveBeenCalledTimes(3);
  expect(user.said.every(({ message }) => message.includes("up to date now"))).toBe(true);
});

test("what a person cancelled is not reported", async () => {
  const bench = { log: log(), views: {}, sessions: {} } as never;
  await report(new CancellationError(), bench);
  await report(TimeleapError.make("cancelled", "x"), bench);
  expect(user.said).toEqual([]);
});

test("the button of an error is the next step", async () => {
  user.answer = ({ buttons }) => buttons[0];
  await report(new ServerFailure("noServer", "none"), { log: log(), views: {}, sessions: {} } as never);
  await report(new ServerFailure("oldPython", "3.9"), { log: log(), views: {}, sessions: {} } as never);
  await report(new ServerFailure("crashed", "again"), { log: log(), views: {}, sessions: {} } as never);
  await report(TimeleapError.make("externallyModified", "x"), { log: log(), views: {}, sessions: {} } as never);
  expect(user.executed.map(({ command }) => command)).toEqual(["timeleap.installServer", "workbench.action.openSettings", "timeleap.restartServer", "timeleap.reloadSession"]);
});

test("what the view says already, with what can be done, is in no box of its own", async () => {
  const failure = new ServerFailure("silent", "does not answer");
  failure.told = true;
  const cause = TimeleapError.make("sessionLocked", "x");
  for (const [error, problem] of [[failure, undefined], [cause, { cause }]] as const) {
    await report(error, { log: log(), views: {}, sessions: { problem } } as never);
  }
  expect(user.said).toEqual([]);
  expect(user.executed.map(({ command }) => command)).toEqual(["timeleap.checkpoints.focus", "timeleap.checkpoints.focus"]);
});

test("each reason for there being nothing to show has its ways out as rows, and the log among them", () => {
  const rows = (kind: FailureKind): string[] => waysOut({ kind: "failed", failure: new ServerFailure(kind, "x") }, undefined).map((row) => row.item().label as string);
  expect(rows("noServer")).toEqual([]); // the welcome view is the way in
  for (const kind of ["noPython", "wrongInterpreter", "oldPython", "protocol", "silent", "crashed", "startFailed"] as const) {
    expect(rows(kind)[0]).toBe("Try Again");
    expect(rows(kind).at(-1)).toBe("Show Logs");
    expect(new Set(rows(kind)).size).toBe(rows(kind).length);
  }
  const ofSession = (kind: SessionProblem["kind"]): string[] => waysOut(READY, { kind, message: "x", cause: undefined, unanswered: false }).map((row) => row.item().label as string);
  expect(ofSession("gone")).toEqual(["Take Out of the Trash", "Open Session…", "New Session…"]);
  expect(ofSession("noPermission")).toEqual(["Try Again", "Open Session…", "Open Settings", "Show Logs"]);
  expect(ofSession("damaged")).toEqual(["Try Again", "Open Session…", "Show Logs"]);
  expect(waysOut(READY, undefined)).toEqual([]);
});

test("what is not there any more has been set aside, or is shown as it is now", async () => {
  user.answer = ({ buttons }) => buttons[0];
  const bench = { log: log(), views: { refresh: () => Promise.resolve() }, sessions: {} } as never;
  for (const kind of ["contentModified", "checkpointNotFound", "timelineNotFound"] as const) {
    await report(TimeleapError.make(kind, "x"), bench);
  }
  expect(user.executed.map(({ command }) => command)).toEqual(["timeleap.checkpoints.focus", "timeleap.checkpoints.focus", "timeleap.checkpoints.focus"]);
});

test("a refusal is a warning, with a button where something can be done about it", async () => {
  const bench = { log: log(), views: {}, sessions: {} } as never;
  await report(new Refusal("not here"), bench);
  await report(new Refusal("not yet", reload()), bench);
  expect(user.said).toMatchObject([
    { kind: "warning", message: "not here", buttons: [] },
    { kind: "warning", message: "not yet", buttons: ["Refresh"] },
  ]);
});

test("without trust nothing is changed, and the way to trust is a button", () => {
  workspace.isTrusted = false;
  const session = { writable: true, followed: false };
  expect(stepsOf(() => writableSession({ shown: session } as never))).toEqual(["workbench.trust.manage"]);
});

test("what can only be followed is not changed; only where its owner does not answer it is worth trying again", () => {
  for (const [followed, steps] of [[true, ["timeleap.reloadSession"]], [false, []]] as const) {
    expect(stepsOf(() => writableSession({ shown: { writable: false, followed } } as never))).toEqual(steps);
  }
});

test("nothing from outside becomes a link that runs a command", async () => {
  const hostile = "[Look](command:workbench.action.quit)";
  const bench = { log: log(), views: {}, sessions: {} } as never;
  await report(new Refusal(hostile), bench);
  await report(TimeleapError.make("internalError", hostile), bench);
  expect(user.said).toHaveLength(2);
  expect(user.said.filter(({ message }) => /\]\((?:https?|command|file):/.test(message))).toEqual([]);
});

/** What the buttons of a refusal would run. */
function stepsOf(refused: () => unknown): string[] {
  try {
    refused();
  } catch (error) {
    return wordsFor(error).steps.map(({ command }) => command);
  }
  throw new Error("it was not refused");
}

// Numbers and times

test("ages are in the language of the editor", () => {
  const now = Date.parse("2026-01-10T12:00:00Z");
  const age = (iso: string): string => relativeTime(iso, now);
  expect([age("2026-01-10T11:59:45Z"), age("2026-01-10T11:57:00Z"), age("2026-01-10T09:00:00Z"), age("2026-01-08T09:00:00Z")]).toEqual([
    "just now",
    "3 min. ago",
    "3 hr. ago",
    "2 days ago",
  ]);
  expect(age("yesterday")).toBe("yesterday");
  env.language = "zh-cn";
  expect(age("2026-01-10T11:57:00Z")).toBe("3分钟前");
});

test("counts are short where there is no room", () => {
  expect([short(999), short(12_345), tokens(1_500_000)]).toEqual(["999", "12.3K", "1.5M tokens"]);
});

test("a row's text is one line, cut between characters", () => {
  expect(oneLine("  a\n\n b\tc ")).toBe("a b c");
  expect(oneLine("x".repeat(500))).toHaveLength(120);
  expect(oneLine("😀".repeat(100), 10)).toBe("😀😀😀😀…");
  expect(oneLine("x".repeat(10), 10)).toBe("x".repeat(10));
});

// Rows

test("every row has words for a screen reader", () => {
  expect(treeItem("id", { label: "a", description: "b" }).accessibilityInformation!.label).toBe("a, b");
  expect(new MoreNode(undefined, "Show more", () => Promise.resolve()).item().accessibilityInformation!.label).toBe("Show more");
});

// The status bar and the line above the rows

const context = (tokenCountWithPending: number, shouldCompact = false): never => ({ tokenCountWithPending, shouldCompact }) as never;
const budget = (maxContextSize: number | null): never => ({ maxContextSize }) as never;

test("tokens warn when compaction is due, and alarm when the window is nearly full", () => {
  expect(tokensShown({ context: context(500), budget: budget(null) })).toMatchObject({ text: "$(dashboard) 500", level: "", quiet: true });
  expect(tokensShown({ context: context(50_000), budget: budget(200_000) })).toMatchObject({ text: "$(dashboard) 50K / 200K (25%)", level: "", quiet: true });
  expect(tokensShown({ context: context(100_000), budget: budget(200_000) })).toMatchObject({ level: "", quiet: false });
  expect(tokensShown({ context: context(175_000, true), budget: budget(200_000) }).level).toBe("warning");
  expect(tokensShown({ context: context(195_000, true), budget: budget(200_000) }).level).toBe("error");
});

const session = (state: object): Pick<Sessions, "shown" | "problem"> =>
  ({ shown: { writable: true, state: { archived: false, warnings: [] }, ...state }, problem: undefined }) as never;
const READY = { kind: "ready" } as SidecarState;

test("the line above the rows says what is not as usual, and nothing else", () => {
  const say = (server: SidecarState, sessions = session({}), recovered?: Date, stale = false): string | undefined => viewMessage({ server, recovered, stale, sessions });
  expect(say(READY)).toBeUndefined();
  expect(say({ kind: "restarting" })).toContain("being started again");
  expect(say({ kind: "failed", failure: new ServerFailure("silent", "does not answer") })).toBe("does not answer");
  expect(say(READY, session({}), new Date())).toContain("was started again at");
  expect(say(READY, session({ writable: false }))).toBe("This session can only be looked at here.");
  expect(say(READY, session({ writable: false, followed: true }))).toContain("does not answer");
  expect(say(READY, session({ writable: false, restricted: true }))).toContain("Restricted Mode");
  expect(say(READY, session({ state: { archived: true, warnings: [{ kind: "x", message: "line 3 is damaged" }] } }))).toContain("line 3 is damaged");
  expect(serverMessage({ server: READY, recovered: undefined, stale: false })).toBeUndefined();
  const stale = /^⚠ .*no primary of the database answered.*may lack the newest changes\.$/;
  expect(serverMessage({ server: READY, recovered: undefined, stale: true })).toMatch(stale);
  expect(say(READY, session({}), undefined, true)).toMatch(stale);
  expect(say(READY, session({ state: { archived: true, warnings: [] } }), new Date(), true)?.split("\n")).toEqual([
    expect.stringContaining("was started again at"),
    expect.stringMatching(stale),
    "Archived",
  ]);
  expect(say(READY, { shown: undefined, problem: { kind: "gone", unanswered: false, cause: undefined, message: "no such session", how: {} } })).toBe("no such session");
});

// What the server warns of

test.each([
  "damagedRecord", "notAsWritten", "linesLost", "conflictCopy", "logMissing", "recovered", "notChecked", "metaDamaged", "stateDamaged", "requestsDamaged", "auditDamaged", "approvalSealBroken",
  "approvalNotNoted", "leftover", "damagedKept", "newerVersion", "newerThanTested", "timelinesPruned", "timelinesNotPruned", "filesNotKept",
  "filesNotRecovered", "filesIncomplete", "notReachable", "trashPurged",
])("the warning %s is a sentence of its own, with the server's words behind it", (kind) => {
  expect(warningInWords(kind, "3 bytes")).toMatch(/^[A-Z].+[^.]: 3 bytes\.$/);
  env.language = "zh-cn";
  expect(warningInWords(kind, "3 bytes")).toMatch(/^[A-Z].+\.（3 bytes）$/);
});

test("in another language what the server says, which is English, stands behind a sentence of ours, in brackets", async () => {
  env.language = "zh-cn";
  const parser = "line 3 of context.jsonl is not JSON: Expecting ',' delimiter (byte 33)";
  for (const kind of kinds) {
    const { message } = wordsFor(TimeleapError.make(kind, parser));
    expect(message.includes(`（${parser}）`) || !message.includes(parser), kind).toBe(true);
  }
  const channel = log();
  await report(TimeleapError.make("corrupted", parser), { log: channel, views: {}, sessions: {} } as never);
  expect(user.said).toMatchObject([{ message: `This session's files are damaged and cannot be used.（${parser}）`, buttons: ["Show Logs"] }]);
  env.language = "en";
  expect(wordsFor(TimeleapError.make("corrupted", parser)).message).toBe(`This session's files are damaged and cannot be used: ${parser}.`);
});

test("a warning of a later server is said as it says it", () => {
  expect(warningInWords("later", "in its words")).toBe("in its words");
});

test("what is said in place of something hides that first, also when both come at once; nothing is hidden before anything was said", async () => {
  let close = (): void => undefined;
  const closed = new Promise<string | undefined>((resolve) => (close = () => resolve(undefined)));
  user.answer = () => closed as never;
  const said = [sayInPlace("one"), sayInPlace("two")];
  await vi.waitFor(() => expect(user.said.map(({ message }) => message)).toEqual(["one", "two"]));
  expect(user.executed.map(({ command }) => command)).toEqual(["notifications.hideToasts"]);
  close();
  await Promise.all(said);
  void sayInPlace("three");
  await vi.waitFor(() => expect(user.said).toHaveLength(3));
  expect(user.executed).toHaveLength(1);
});

// What a program deletes itself

test("a session says a week before that its program deletes its file, and afterwards that it is kept", () => {
  const now = Date.parse("2026-11-29T10:00:00Z");
  const known = { kind: "claude-code", key: "x" };
  const source = (kept: object) => ({ ...known, kept: { bytes: 1, generations: 1, fileGone: false, ...kept } });
  expect(deletionOf(known, now)).toBeUndefined();
  expect(deletionOf(source({}), now)).toBeUndefined();
  expect(deletionOf(source({ goesAt: "2026-12-07T10:00:00Z" }), now)).toBeUndefined();
  expect(deletionOf(source({ goesAt: "2026-12-05T10:00:00Z" }), now)).toMatch(/^Claude Code deletes its file on .*2026.*; it is kept here$/);
  expect(deletionOf(source({ goesAt: "2026-11-01T10:00:00Z" }), now)).toContain("deletes its file");
  expect(deletionOf(source({ fileGone: true }), now)).toBe("Claude Code has deleted its file, which is kept here");
});
