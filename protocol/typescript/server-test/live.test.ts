/** Sessions that are live in several processes, each with a client of its own. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as wait } from "node:timers/promises";
import type { Notifications, Reconnected, TimeleapClient, TimeleapError } from "../src/index.js";
import { until } from "../support/fake.js";
import { Real } from "../support/real.js";

type Change = Notifications["context/didChange"] | Notifications["session/didChange"];

const RESTARTS = { limit: 20, delay: 10, longest: 100, stable: 0, repeats: 20 };

let real: Real;

before(async () => {
  real = await Real.make();
});

after(() => real.end());

/** A client with the session open, and all it hears. */
class Window {
  readonly heard: Change[] = [];

  private constructor(
    readonly client: TimeleapClient,
    readonly sessionId: string,
    readonly access: string,
  ) {}

  static async open(name: string, sessionId: string): Promise<Window> {
    const client = await real.start(name, { restarts: RESTARTS });
    const heard: Change[] = [];
    client.onNotification("context/didChange", (change) => heard.push(change));
    client.onNotification("session/didChange", (change) => heard.push(change));
    const { access } = await client.request("session/open", { sessionId });
    return Object.assign(new Window(client, sessionId, access), { heard });
  }

  append(content: string, expectedHead?: string): Promise<{ head: string }> {
    const { sessionId } = this;
    const stale = expectedHead === undefined ? {} : { expectedHead };
    return this.client.request("context/appendMessage", { sessionId, message: { role: "user", content }, ...stale });
  }

  async texts(): Promise<unknown[]> {
    const { messages } = await this.client.request("context/getHistory", { sessionId: this.sessionId, limit: 1000 });
    return messages.map(({ message }) => message.content);
  }
}

async function two(sessionId: string): Promise<[Window, Window]> {
  return [await Window.open("first", sessionId), await Window.open("second", sessionId)];
}

test("one reverts while the other appends; both hear the same", async () => {
  const [first, second] = await two("scene");
  assert.deepEqual([first.access, second.access], ["owner", "attached"]);
  const { sessionId } = first;
  const { checkpoint } = await first.client.request("context/checkpoint", { sessionId, label: "before the idea" });
  const { head } = await first.append("an idea");
  const reverted = await second.client.request("context/revertTo", { sessionId, checkpointUid: checkpoint.uid });
  await assert.rejects(first.append("on top of the idea", head), (error: TimeleapError) => {
    assert.deepEqual([error.kind, error.code, error.data.head], ["contentModified", -32801, reverted.head]);
    return true;
  });
  await first.append("another idea");
  await until(() => second.heard.length === 4);
  assert.deepEqual(first.heard, second.heard);
  assert.deepEqual(
    first.heard.map(({ kind, cause }) => [kind, cause.client]),
    [
      ["checkpointCreated", "first"],
      ["messagesAppended", "first"],
      ["reverted", "second"],
      ["messagesAppended", "first"],
    ],
  );
  assert.deepEqual(await second.texts(), ["another idea"]);
});

test("the owner is killed: the other takes over, the killed one comes back attached, nothing is lost or doubled", async () => {
  const [first, second] = await two("killed");
  const back = new Promise<Reconnected>((resolve) => first.client.on("restarted", resolve));
  const calls: Promise<unknown>[] = [];
  for (let n = 0; n < 60; n += 1) {
    calls.push(first.append(`a${n}`), second.append(`b${n}`));
    if (n === 30) {
      await calls[40];
      process.kill(first.client.pid ?? 0, "SIGKILL");
    }
  }
  await Promise.all(calls);
  const texts = (await second.texts()).map(String);
  assert.equal(texts.length, 120);
  for (const name of ["a", "b"]) {
    const expected = Array.from({ length: 60 }, (_, n) => `${name}${n}`);
    assert.deepEqual(texts.filter((text) => text.startsWith(name)), expected);
  }
  await until(() => second.heard.some(({ kind }) => kind === "accessChanged")); // what was killed may stand before the server, which ends after it
  const changes = second.heard.filter(({ kind }) => kind === "accessChanged");
  assert.deepEqual(changes.map((change) => "access" in change && change.access), ["owner"]);
  assert.deepEqual((await back).sessions.map(({ access }) => access), ["attached"]);
});

test("the owner closes the session: the other is told that it owns it now", async () => {
  const [first, second] = await two("closed");
  await first.client.request("session/close", { sessionId: "closed" });
  await until(() => second.heard.some(({ kind }) => kind === "accessChanged"));
  const { access } = await second.client.request("session/getState", { sessionId: "closed" });
  assert.equal(access, "owner");
});

test("an owner that hangs for a while is waited for, and the request takes effect once", { skip: process.platform === "win32" }, async () => {
  const [first, second] = await two("hanging");
  const pid = first.client.pid ?? 0;
  process.kill(pid, "SIGSTOP");
  const appended = second.append("patiently");
  await wait(7_000); // longer than a server waits for an owner
  process.kill(pid, "SIGCONT");
  await appended;
  assert.deepEqual(await second.texts(), ["patiently"]);
});
