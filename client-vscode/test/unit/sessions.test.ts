import { expect, test, vi } from "vitest";
import type { Memento } from "vscode";
import { TimeleapError, type Reconnected, type SessionState } from "timeleap-client";
import type { Sidecar } from "../../src/core/server/sidecar.js";
import { Sessions } from "../../src/core/sessions/sessions.js";
import { newestOfWorkspace } from "../../src/features/sessions/newest.js";
import { EventEmitter, Uri, workspace } from "../support/vscode.js";

/** A server that takes its time to open a session. */
class Slow {
  asked = 0;
  answer: (state: Partial<SessionState>) => void = () => undefined;
  refuse: (error: Error) => void = () => undefined;
  readonly onDidConnect = new EventEmitter<undefined>().event;
  readonly onNotification = new EventEmitter<undefined>().event;

  request(): Promise<Partial<SessionState>> {
    this.asked += 1;
    return new Promise((resolve, reject) => {
      this.answer = resolve;
      this.refuse = reject;
    });
  }
}

function sessionsOf(server: Slow): Sessions {
  const sessions = new Sessions(server as unknown as Sidecar, { get: () => undefined, update: () => Promise.resolve() } as unknown as Memento);
  sessions.suggest = () => newestOfWorkspace(sessions);
  return sessions;
}

test("a session that is asked for again while it is being opened is opened once", async () => {
  workspace.isTrusted = true;
  const server = new Slow();
  const sessions = sessionsOf(server);
  const both = [sessions.attach({ sessionId: "s" }), sessions.attach({ sessionId: "s", create: false })];
  server.answer({ sessionId: "s" });
  const [one, other] = await Promise.all(both);
  expect(one).toBe(other);
  expect(server.asked).toBe(1);
});

test("a session that could not be opened can be asked for again", async () => {
  workspace.isTrusted = true;
  const server = new Slow();
  const sessions = sessionsOf(server);
  const refused = sessions.attach({ sessionId: "s" });
  server.refuse(new Error("no"));
  await expect(refused).rejects.toThrow("no");
  const opened = sessions.attach({ sessionId: "s" });
  server.answer({ sessionId: "s" });
  expect((await opened).id).toBe("s");
  expect(server.asked).toBe(2);
});

test.each([[[{ sessionId: "found", updatedAt: "2026", path: "/store/sessions/found" }]], [[]]])(
  "what a person chose while the first session was looked for stays",
  async (listed) => {
    workspace.isTrusted = true;
    workspace.workspaceFolders = [{ uri: Uri.file("/project"), name: "project", index: 0 }];
    const server = new Slow();
    const sessions = sessionsOf(server);
    const first = sessions.openFirst();
    sessions.show(undefined); // such as a session that was made and closed meanwhile
    server.answer({ sessions: listed } as never);
    await first;
    await sessions.openFirst();
    expect(server.asked).toBe(1); // for the list, and nothing after it
    expect(sessions.shown).toBeUndefined();
  },
);

test("deleting a session that is not open leaves what is remembered to be shown, and what is looked for, as they are", async () => {
  workspace.isTrusted = true;
  const server = new Slow();
  const update = vi.fn(() => Promise.resolve());
  const memory = { get: () => ({ sessionId: "last", create: false }), update } as unknown as Memento;
  const sessions = new Sessions(server as unknown as Sidecar, memory);
  const shown = vi.fn();
  sessions.onDidChangeShown(shown);
  sessions.forget("another");
  expect(shown).not.toHaveBeenCalled();
  expect(update).not.toHaveBeenCalled();
  const first = sessions.openFirst();
  server.answer({ sessionId: "last" });
  await first;
  expect(sessions.shown?.id).toBe("last");
});

test("what a person closed while the first session was being opened stays closed", async () => {
  workspace.isTrusted = true;
  workspace.workspaceFolders = [{ uri: Uri.file("/project"), name: "project", index: 0 }];
  const server = new Slow();
  const sessions = sessionsOf(server);
  const first = sessions.openFirst();
  server.answer({ sessions: [{ sessionId: "found", updatedAt: "2026", path: "/store/sessions/found" }] } as never);
  await vi.waitFor(() => expect(server.asked).toBe(2)); // it is being opened
  sessions.show(undefined);
  server.answer({ sessionId: "found" });
  await first;
  expect(sessions.shown).toBeUndefined();
  expect(sessions.isOpen("found")).toBe(false);
});

test("a database that cannot be reached is said to be, and looked at again when it is asked for", async () => {
  workspace.isTrusted = true;
  workspace.workspaceFolders = [{ uri: Uri.file("/project"), name: "project", index: 0 }];
  const server = new Slow();
  const sessions = sessionsOf(server);
  const first = sessions.openFirst();
  server.refuse(new TimeleapError("no server answers", 4005, { kind: "storageFailure", retryable: true, store: "postgresql", reason: "unreachable" }));
  await first;
  expect(sessions.problem).toMatchObject({ kind: "databaseRefused", message: expect.stringContaining("The database that the sessions are in cannot be used: no server answers.") as string });
  const again = sessions.tryAgain(sessions.problem!);
  server.answer({ sessions: [] } as Partial<SessionState>);
  await again;
  expect(sessions.problem).toBeUndefined();
});

/** Servers one after the other, by hand: what is asked waits until it is answered or refused. */
class Mortal {
  state: { kind: "ready" | "failed" | "starting" | "restarting" } = { kind: "ready" };
  readonly connected = new EventEmitter<Reconnected | undefined>();
  readonly onDidConnect = this.connected.event;
  readonly onNotification = new EventEmitter<undefined>().event;
  private pending: { sessionId: string; answer: (state: unknown) => void; refuse: (error: Error) => void }[] = [];

  request(_method: string, { sessionId }: { sessionId: string }): Promise<unknown> {
    return new Promise((answer, refuse) => this.pending.push({ sessionId, answer, refuse }));
  }

  /** Answers what was asked for, and says which sessions that was for. */
  async answers(): Promise<string[]> {
    const asked = this.take();
    asked.forEach(({ sessionId, answer }) => answer({ sessionId }));
    await new Promise(setImmediate);
    return asked.map(({ sessionId }) => sessionId);
  }

  async refuses(error: Error): Promise<void> {
    this.take().forEach(({ refuse }) => refuse(error));
    await new Promise(setImmediate);
  }

  /** Ends: what was asked for is refused once it is given up, or is no longer wanted. */
  async ends(kind: "failed" | "starting"): Promise<void> {
    this.state = { kind };
    await this.refuses(named("ConnectionLostError"));
  }

  /** Another server is there, or the same again, with what it has open. */
  isThere(reconnected?: Reconnected): void {
    this.state = { kind: "ready" };
    this.connected.fire(reconnected);
  }

  private take(): typeof this.pending {
    return this.pending.splice(0);
  }
}

const named = (name: string): Error => Object.assign(new Error("nobody answers"), { name });

async function twoOpen(): Promise<{ server: Mortal; sessions: Sessions }> {
  workspace.isTrusted = true;
  const server = new Mortal();
  const sessions = new Sessions(server as unknown as Sidecar, { get: () => undefined, update: () => Promise.resolve() } as unknown as Memento);
  const opening = [sessions.attach({ sessionId: "beside" }), sessions.open({ sessionId: "shown" })];
  await server.answers();
  await Promise.all(opening);
  return { server, sessions };
}

test.each(["failed", "starting"] as const)("sessions that were being opened again when their server ended (%s) are opened on the next one", async (end) => {
  const { server, sessions } = await twoOpen();
  server.isThere();
  await server.ends(end);
  expect(sessions.problem).toBeUndefined();
  server.isThere();
  expect((await server.answers()).sort()).toEqual(["beside", "shown"]);
  expect(sessions.shown?.id).toBe("shown");
  expect(sessions.isOpen("beside")).toBe(true);
});

test("a session that was not opened again in time is said to be, and opened on another server", async () => {
  const { server, sessions } = await twoOpen();
  server.isThere();
  await server.refuses(named("RequestTimeoutError"));
  expect(sessions.problem).toMatchObject({ kind: "failed", message: "The session could not be opened: nobody answers." });
  server.isThere();
  expect(await server.answers()).toContain("shown");
  expect(sessions.problem).toBeUndefined();
  expect(sessions.shown?.id).toBe("shown");
});

test.each(["asked", "beside"])("a session that a person asked for when the server ended is shown by the next one, unless another was chosen: %s", async (shown) => {
  const { server, sessions } = await twoOpen();
  const asked = expect(sessions.open({ sessionId: "asked" })).rejects.toThrow("nobody answers");
  await server.ends("failed");
  await asked;
  server.isThere();
  if (shown === "beside") {
    sessions.show(sessions.get("beside"));
  }
  expect(await server.answers()).toContain("asked");
  expect(sessions.shown?.id).toBe(shown);
});

test("a session whose opening ends the server each time is given up, though the server is started again", async () => {
  const { server, sessions } = await twoOpen();
  server.isThere();
  server.state = { kind: "restarting" };
  await server.refuses(named("ConnectionLostError"));
  server.isThere({ sessions: [], refused: [] });
  expect(await server.answers()).toEqual([]);
  expect(sessions.problem).toMatchObject({ kind: "failed", how: { sessionId: "shown" } });
});

test("a session that the next server refuses is taken away, in its words, and not asked for again", async () => {
  const { server, sessions } = await twoOpen();
  server.isThere();
  await server.refuses(new TimeleapError("there is no such session", 4001, { kind: "sessionNotFound", retryable: false }));
  server.isThere();
  expect(await server.answers()).toEqual([]);
  expect(sessions.problem).toMatchObject({ kind: "gone", message: "This session no longer exists. If it was deleted, it is in the trash." });
});

test("what Restricted Mode is said to keep from being changed is so until it has been opened again", async () => {
  workspace.isTrusted = false;
  const server = new Mortal();
  const sessions = new Sessions(server as unknown as Sidecar, { get: () => undefined, update: () => Promise.resolve() } as unknown as Memento);
  const opening = sessions.open({ sessionId: "shown" });
  await server.answers();
  const session = await opening;
  workspace.isTrusted = true;
  server.isThere();
  expect(session.restricted).toBe(true);
  await server.answers();
  expect(session.restricted).toBe(false);
});
