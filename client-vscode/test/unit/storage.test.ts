import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { Memento } from "vscode";
import { TimeleapError } from "timeleap-client";
import { wordsFor } from "../../src/core/commands/report.js";
import { writableSession } from "../../src/core/commands/targets.js";
import { startFailure } from "../../src/core/server/failure.js";
import { storageTroubleOf } from "../../src/shared/text/storageTrouble.js";
import { lookAgain, newestOfWorkspace } from "../../src/features/sessions/newest.js";
import { Sessions } from "../../src/core/sessions/sessions.js";
import { TroubleNode } from "../../src/core/tree/node.js";
import { viewMessage } from "../../src/features/status/viewMessage.js";
import { Views } from "../../src/core/tree/views.js";
import { EventEmitter, Uri, user, workspace } from "../support/vscode.js";

beforeEach(() => {
  user.reset();
  workspace.isTrusted = true;
});

const refusal = (errno: string): TimeleapError =>
  new TimeleapError(`cannot take the lock: ${errno}`, 4005, { kind: "storageFailure", retryable: true, errno, path: "/store/chat/.lock" });

const CASES = [
  ["ENOSPC", "diskFull", "The disk is full", "Make room"],
  ["EDQUOT", "quotaUsedUp", "quota is used up", "Make room"],
  ["EROFS", "diskReadOnly", "The disk is read-only", "Change that"],
  ["EACCES", "noPermission", "Permission is denied", "Change that"],
  ["EPERM", "noPermission", "Permission is denied", "Change that"],
  ["EIO", "storageRefused", "The operating system refused: cannot take the lock: EIO.", "Try again"],
] as const;

/** A server that refuses to write; `reads`: what a session opened to be looked at says. */
function server(errno: string, reads: unknown) {
  const asked: { access?: string; create?: boolean }[] = [];
  const connected = new EventEmitter<unknown>();
  return {
    asked,
    connected,
    errno: errno as string | undefined,
    onDidConnect: connected.event,
    onNotification: new EventEmitter<undefined>().event,
    request(_method: string, params: { access?: string; create?: boolean }): Promise<object> {
      asked.push(params);
      if (params.access !== "readOnly") {
        return this.errno === undefined ? Promise.resolve({ ...(reads as object), access: "owner" }) : Promise.reject(refusal(this.errno));
      }
      return reads instanceof Error ? Promise.reject(reads) : Promise.resolve(reads as object);
    },
  };
}

const READABLE = { sessionId: "chat", access: "readOnly", title: "Chat", archived: false, warnings: [], context: { messageCount: 1 } };
const sessionsOf = (wire: object): Sessions => new Sessions(wire as never, { get: () => undefined, update: () => Promise.resolve() } as unknown as Memento);

test.each(CASES)("%s is said in words of its own, with what to do", (errno, kind, what, next) => {
  expect(storageTroubleOf(refusal(errno))?.kind).toBe(kind);
  const { message, steps } = wordsFor(refusal(errno));
  expect(message).toContain(what);
  expect(message).toContain("Nothing was changed.");
  expect(message).toContain(next);
  expect(message).toContain(kind === "storageRefused" ? errno : "/store/chat");
  expect(message).not.toContain(".lock"); // a file that only the server has a use for
  expect(message).not.toMatch(/damaged|files cannot be used/);
  expect(steps.map(({ command }) => command)).toEqual(["timeleap.showLogs"]);
  expect(startFailure(refusal(errno), "timeleap").message).toContain(next);
  expect(new TroubleNode(undefined, refusal(errno)).item().label).toContain(next);
});

test.each(CASES)("%s: a session that can be read is read, and says why it cannot be changed", async (errno, _, what, next) => {
  const wire = server(errno, READABLE);
  const sessions = sessionsOf(wire);
  for (const how of [{ sessionId: "chat" }, { path: "/elsewhere", access: "write" as const }]) {
    const session = await sessions.open(how);
    expect(session.obstacle?.what).toContain(what);
    expect(session.followed).toBe(false);
    expect(sessions.problem).toBeUndefined();
    const line = viewMessage({ server: { kind: "ready" } as never, recovered: undefined, stale: false, sessions });
    expect(line).toContain(what);
    expect(line).toContain(next);
    expect(line).toContain("can only be looked at here");
    expect(() => writableSession(sessions)).toThrow(what);
    await sessions.close("chat").catch(() => undefined);
  }
  expect(wire.asked.map(({ access }) => access)).toEqual([undefined, "readOnly", undefined, "write", "readOnly", undefined]);
});

test.each(CASES)("%s: where it cannot be read either, what was in the way of writing is said", async (errno, kind, what) => {
  const sessions = sessionsOf(server(errno, TimeleapError.make("sessionNotFound", "no session chat")));
  await expect(sessions.open({ sessionId: "chat" })).rejects.toThrow(errno);
  expect(sessions.problem).toMatchObject({ kind, message: expect.stringContaining(what) as string });
  await expect(sessions.open({ title: "new" })).rejects.toThrow(errno);
});

test("what is asked for to be looked at is not asked for twice", async () => {
  const wire = server("EROFS", refusal("EACCES"));
  await expect(sessionsOf(wire).open({ sessionId: "chat", access: "readOnly" })).rejects.toThrow("EACCES");
  expect(wire.asked).toHaveLength(1);
});

test("only damage is called damage", async () => {
  const sessions = sessionsOf({ ...server("EROFS", READABLE), request: () => Promise.reject(TimeleapError.make("corrupted", "line 1")) });
  await expect(sessions.open({ sessionId: "chat" })).rejects.toThrow("line 1");
  expect(sessions.problem?.kind).toBe("damaged");
});

test("a session stays readable when the server comes back and the disk refuses; once it does not, the session is open for writing again", async () => {
  const wire = server("EROFS", READABLE);
  wire.errno = undefined;
  const sessions = sessionsOf(wire);
  const session = await sessions.open({ sessionId: "chat" });
  expect(session.writable).toBe(true);
  wire.errno = "EROFS";
  wire.connected.fire({ refused: [{ sessionId: "chat", error: refusal("EROFS") }] });
  await expect.poll(() => session.obstacle?.kind).toBe("diskReadOnly");
  expect(sessions.shown).toBe(session);
  wire.errno = undefined;
  wire.connected.fire(undefined);
  await expect.poll(() => session.writable).toBe(true);
  expect(session.obstacle).toBeUndefined();
});

test("a database that cannot be used is said so, and nothing is promised of a commit whose outcome is unknown", () => {
  const refused = (data: object): TimeleapError =>
    new TimeleapError("cannot connect to postgresql://db/timeleap", 4005, { kind: "storageFailure", retryable: true, store: "postgresql://db/timeleap", ...data });
  const { message } = wordsFor(refused({ reason: "unreachable" }));
  expect(message).toContain("The database that the sessions are in cannot be used: cannot connect to postgresql://db/timeleap.");
  expect(message).toContain("Nothing was changed.");
  const unknown = wordsFor(refused({ reason: "lost", outcome: "unknown" })).message;
  expect(unknown).toContain("Whether the change was made is not known");
  expect(unknown).not.toContain("Nothing was changed");
});

const unreachable = (): TimeleapError => new TimeleapError("no server answers", 4005, { kind: "storageFailure", retryable: true, store: "postgresql", reason: "unreachable" });

test("a session whose database goes away is said to be unreachable, and is written to again once it is back", async () => {
  const wire = server("EROFS", unreachable());
  wire.errno = undefined;
  let away = false;
  const request = (method: string, params: object): Promise<object> => (away ? Promise.reject(unreachable()) : wire.request(method, params));
  const sessions = sessionsOf({ onDidConnect: wire.onDidConnect, onNotification: wire.onNotification, request, state: { kind: "ready" } });
  wire.request = () => Promise.resolve({ ...READABLE, access: "owner" });
  await sessions.open({ sessionId: "chat" });
  away = true;
  wire.connected.fire({ refused: [{ sessionId: "chat", error: unreachable() }] });
  await expect.poll(() => sessions.problem).toMatchObject({ kind: "databaseRefused", how: { sessionId: "chat", create: false } });
  await expect(sessions.tryAgain(sessions.problem!)).rejects.toThrow("no server answers");
  away = false;
  await sessions.tryAgain(sessions.problem!);
  expect(sessions.problem).toBeUndefined();
  expect(sessions.shown).toMatchObject({ id: "chat", writable: true });
});

describe("where no session is shown", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  test.each([[[]], [[{ sessionId: "chat", updatedAt: "2026" }]]])("a database that is away is asked now and then, not all the time, and shows what there is once it is back: %j", async (found) => {
    workspace.workspaceFolders = [{ uri: Uri.file("/project"), name: "project", index: 0 }];
    let asked = 0;
    let away = true;
    const wire = server("EROFS", READABLE);
    const answered = (method: string): Promise<object> => {
      asked += 1;
      return away ? Promise.reject(unreachable()) : Promise.resolve(method === "session/list" ? { sessions: found } : { ...READABLE, checkpoints: [] });
    };
    const { onDidConnect, onNotification } = wire;
    const database = { onDidConnect, onNotification, request: answered, state: { kind: "ready" }, onDidChangeState: new EventEmitter<unknown>().event, started: () => Promise.resolve() };
    const sessions = sessionsOf(database);
    sessions.suggest = () => newestOfWorkspace(sessions);
    const looking = lookAgain(database as never, sessions);
    const views = new Views(database as never, sessions);
    await views.tree.getChildren();
    await vi.advanceTimersByTimeAsync(50_000);
    expect(sessions.problem?.kind).toBe("databaseRefused");
    expect(asked).toBe(1);
    away = false;
    await vi.advanceTimersByTimeAsync(60_000);
    expect(sessions.problem).toBeUndefined();
    expect(sessions.shown?.id).toBe(found[0]?.sessionId);
    looking.dispose();
    views.dispose();
    sessions.dispose();
  });
});
