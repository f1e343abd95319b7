/** The real server is killed, again and again: nothing acknowledged is lost, nothing takes effect twice. */

import assert from "node:assert/strict";
import { cpSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import type { Reconnected, TimeleapClient } from "../src/index.js";
import { alive, until } from "../support/fake.js";
import { Real } from "../support/real.js";

const RESTARTS = { limit: 20, delay: 10, longest: 100, repeats: 50 };

let real: Real;

before(async () => {
  real = await Real.make();
});

after(() => real.end());

async function texts(client: TimeleapClient, sessionId: string): Promise<unknown[]> {
  const { messages } = await client.request("context/getHistory", { sessionId, limit: 1000 });
  return messages.map(({ message }) => message.content);
}

test("killed five times in the middle of appends to two sessions", async () => {
  const client = await real.start("killed", { restarts: RESTARTS });
  for (const sessionId of ["a", "b"]) {
    await client.request("session/open", { sessionId });
  }
  const calls: Promise<unknown>[] = [];
  const append = (count: number): void => {
    for (let n = 0; n < count; n += 1) {
      const message = { role: "user", content: String(calls.length / 2) };
      calls.push(client.request("context/appendMessage", { sessionId: "a", message }));
      calls.push(client.request("context/appendMessage", { sessionId: "b", message }));
    }
  };
  for (let kills = 0; kills < 5; kills += 1) {
    append(40);
    await calls.at(-50); // some are answered, some are not
    const lost = new Promise((resolve) => client.on("lost", resolve));
    process.kill(client.pid ?? 0, "SIGKILL");
    append(10);
    await lost;
    append(10);
    await until(() => client.state === "running");
  }
  await Promise.all(calls);
  const expected = Array.from({ length: 300 }, (_, n) => String(n)).join();
  assert.equal((await texts(client, "a")).join(), expected);
  assert.equal((await texts(client, "b")).join(), expected);
});

test("who only listens is told where to go on from", async () => {
  const client = await real.start();
  const { sessionId } = await client.request("session/open");
  const { head } = await client.request("context/appendMessage", { sessionId, message: { role: "user", content: "x" } });
  const back = new Promise<Reconnected>((resolve) => client.on("restarted", resolve));
  process.kill(client.pid ?? 0, "SIGKILL");
  assert.deepEqual(await back, { sessions: [{ sessionId, head, access: "owner" }], refused: [] });
});

test("a session in a folder whose name is no id keeps the id it was given", async () => {
  const client = await real.start();
  await client.request("session/open", { sessionId: "original" });
  await client.request("session/close", { sessionId: "original" });
  const path = join(real.home, "a folder, of somebody's");
  cpSync(join(real.home, "store", "sessions", "original"), path, { recursive: true });
  const { sessionId } = await client.request("session/open", { path, access: "write" });
  process.kill(client.pid ?? 0, "SIGKILL");
  await client.request("context/appendMessage", { sessionId, message: { role: "user", content: "still here" } });
  assert.deepEqual(await texts(client, sessionId), ["still here"]);
});

test("a restart that is asked for keeps sessions and requests", async () => {
  const client = await real.start();
  const { sessionId } = await client.request("session/open");
  const append = (content: string): Promise<unknown> =>
    client.request("context/appendMessage", { sessionId, message: { role: "user", content } });
  const first = client.pid;
  await Promise.all([append("before"), client.restart(), append("after")]);
  assert.notEqual(client.pid, first);
  assert.deepEqual(await texts(client, sessionId), ["before", "after"]);
});

test("dispose in the middle leaves no process, and the session to the next", async () => {
  const one = await real.start("one");
  await one.request("session/open", { sessionId: "left" });
  const pid = one.pid ?? 0;
  const calls = Array.from({ length: 50 }, () =>
    one.request("context/appendMessage", { sessionId: "left", message: { role: "user", content: "x" } }),
  );
  one.dispose();
  await Promise.allSettled(calls);
  await until(() => !alive(pid));
  const two = await real.start("two");
  const { access, context } = await two.request("session/open", { sessionId: "left" });
  assert.equal(access, "owner");
  assert.ok(context.messageCount <= 50);
});
