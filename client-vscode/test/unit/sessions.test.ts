import { expect, test, vi } from "vitest";
import type { Memento } from "vscode";
import { TimeleapError, type SessionState } from "timeleap-client";
import type { Sidecar } from "../../src/core/server/sidecar.js";
import { Sessions } from "../../src/core/sessions/sessions.js";
import { EventEmitter, Uri, workspace } from "../support/vscode.js";

/** A server that takes its time to open a session. */
class Slow {
  asked = 0;
  answer: (state: Partial<SessionState>) => void = () => undefined;
  refuse: (error: Error) => void = () => undefined;
  readonly onDidConnect = new EventEmitter<undefined>().event;
  readonly onNotification = new EventEmitter<undefined>().event;

  request(method: string): Promise<Partial<SessionState>> {
    if (method === "context/listCheckpoints") {
      return new Promise(() => undefined); // what comes with opening
    }
    this.asked += 1;
    return new Promise((resolve, reject) => {
      this.answer = resolve;
      this.refuse = reject;
    });
  }
}

const sessionsOf = (server: Slow): Sessions => new Sessions(server as unknown as Sidecar, { get: () => undefined, update: () => Promise.resolve() } as unknown as Memento);

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
    const first = sessions.openFirst(true);
    sessions.show(undefined); // such as a session that was made and closed meanwhile
    server.answer({ sessions: listed } as never);
    await first;
    await sessions.openFirst(true);
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
  sessions.deleted("another");
  expect(shown).not.toHaveBeenCalled();
  expect(update).not.toHaveBeenCalled();
  const first = sessions.openFirst(true);
  server.answer({ sessionId: "last" });
  await first;
  expect(sessions.shown?.id).toBe("last");
});

test("the first page of checkpoints is asked for together with the session, not after it", async () => {
  workspace.isTrusted = true;
  const server = new Slow();
  const asked: string[] = [];
  const request = server.request.bind(server);
  server.request = (method) => {
    asked.push(method);
    return request(method);
  };
  const opening = sessionsOf(server).attach({ sessionId: "s" });
  await vi.waitFor(() => expect(asked).toEqual(["session/open", "context/listCheckpoints"]));
  server.answer({ sessionId: "s" });
  await opening;
});

test("what a person closed while the first session was being opened stays closed", async () => {
  workspace.isTrusted = true;
  workspace.workspaceFolders = [{ uri: Uri.file("/project"), name: "project", index: 0 }];
  const server = new Slow();
  const sessions = sessionsOf(server);
  const first = sessions.openFirst(true);
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
  const first = sessions.openFirst(true);
  server.refuse(new TimeleapError("no server answers", 4005, { kind: "storageFailure", retryable: true, store: "postgresql", reason: "unreachable" }));
  await first;
  expect(sessions.problem).toMatchObject({ kind: "databaseRefused", message: expect.stringContaining("The database that the sessions are in cannot be used: no server answers.") as string });
  const again = sessions.tryAgain(sessions.problem!, true);
  server.answer({ sessions: [] } as Partial<SessionState>);
  await again;
  expect(sessions.problem).toBeUndefined();
});
