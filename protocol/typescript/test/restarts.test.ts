/** The client over the loss of its server: restarts, sessions opened again, requests sent again, giving up. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as wait } from "node:timers/promises";
import { ClientClosedError, ConnectionLostError, RequestTimeoutError, TimeleapClient, type Reconnected } from "../src/index.js";
import { alive, append, Fake, QUICK, until } from "../support/fake.js";

const APPEND = "context/appendMessage";

/** What becomes of the server, in order. */
function events(client: TimeleapClient): string[] {
  const seen: string[] = [];
  for (const event of ["connected", "lost", "restarted", "gaveUp"] as const) {
    client.on(event, () => seen.push(event));
  }
  return seen;
}

function restarted(client: TimeleapClient): Promise<Reconnected> {
  return new Promise((resolve) => client.on("restarted", resolve));
}

for (const [what, duplicate] of [
  ["die", undefined],
  ["effectAndDie", true],
] as const) {
  test(`a request is sent again under its id and takes effect once (${what})`, async () => {
    const fake = new Fake([[APPEND, 2, what]]);
    await fake.run(async (client) => {
      await append(client, "1");
      assert.equal((await append(client, "2")).duplicate, duplicate);
      assert.deepEqual(fake.appended, ["1", "2"]);
      const [, second, third] = fake.params(APPEND);
      assert.deepEqual(second, third);
      assert.equal(fake.count, 2);
    });
  });
}

test("what was under way is sent again, in the order of the calls", async () => {
  const fake = new Fake([[APPEND, 3, "die"]]);
  await fake.run(async (client) => {
    const calls = Array.from({ length: 20 }, (_, n) => append(client, String(n)));
    for (let n = 20; fake.count < 2; n += 1) {
      calls.push(append(client, String(n)));
      await wait(5);
    }
    for (let n = 0; n < 20; n += 1) {
      calls.push(append(client, String(calls.length)));
    }
    await Promise.all(calls);
    assert.deepEqual(fake.appended, calls.map((_, n) => String(n)));
  });
});

test("a listener that asks at the restart does not overtake what waits", async () => {
  const fake = new Fake([[APPEND, 1, "die"]]);
  await fake.run(async (client) => {
    const late: Promise<unknown>[] = [];
    client.on("restarted", () => late.push(append(client, "late")));
    await Promise.all([append(client, "1"), append(client, "2")]);
    await Promise.all(late);
    assert.deepEqual(fake.appended, ["1", "2", "late"]);
  });
});

test("a request that paused when the server went away keeps its place before later ones", async () => {
  const locked = [1, 2, 3].map((nth) => [APPEND, nth, "locked"] as const);
  const fake = new Fake([...locked, ["session/list", 1, "die"]], ["", "die", ""]);
  await fake.run(
    async (client) => {
      const first = append(client, "1");
      await until(() => fake.told(APPEND).length === 3); // it pauses for 200 ms now, and wakes while there is no server
      const listed = client.request("session/list");
      await until(() => client.state === "restarting");
      await Promise.all([first, listed, append(client, "2")]);
      assert.deepEqual(fake.appended, ["1", "2"]);
    },
    { restarts: { ...QUICK, delay: 500, longest: 500 } },
  );
});

test("a request that was refused as often as it may be sent is sent again when the server goes away", async () => {
  const locked = [1, 2, 3].map((nth) => [APPEND, nth, "locked"] as const);
  const fake = new Fake([...locked, [APPEND, 4, "die"]]);
  await fake.run(async (client) => {
    await append(client, "1");
    assert.deepEqual(fake.appended, ["1"]);
  });
});

test("open sessions are opened again as they were, and their heads are told", async () => {
  const fake = new Fake([["session/list", 1, "die"]]);
  await fake.run(async (client) => {
    await client.request("session/open", { sessionId: "a", title: "A" });
    await client.request("session/open", { sessionId: "a" });
    await client.request("session/open", { path: "/sessions/no id!", access: "readOnly" });
    await client.request("session/open", { sessionId: "c" });
    await client.request("session/close", { sessionId: "c" });
    const back = restarted(client);
    await client.request("session/list");
    const a = { sessionId: "a", create: false };
    const byPath = { sessionId: "generated", create: false, path: "/sessions/no id!", access: "readOnly" };
    assert.deepEqual(fake.params("session/open").slice(4), [a, byPath, a]);
    assert.deepEqual(await back, {
      sessions: [
        { sessionId: "a", head: "0", access: "owner" },
        { sessionId: "generated", head: "0", access: "owner" },
      ],
      refused: [],
    });
    const order = fake.told().map(({ method }) => method);
    assert.ok(order.lastIndexOf("session/list") > order.lastIndexOf("session/open"));
  });
});

test("they are opened again at every restart", async () => {
  const fake = new Fake([["session/list", 1, "die"], ["session/list", 3, "die"]]);
  await fake.run(async (client) => {
    await client.request("session/open", { sessionId: "a" });
    await client.request("session/list");
    await client.request("session/list");
    assert.deepEqual([fake.count, fake.told("session/open").length], [3, 3]);
  });
});

test("a session that another process still holds is tried again, and opened no more often than before", async () => {
  const fake = new Fake([["session/open", 4, "locked"], ["session/open", 5, "locked"], [APPEND, 1, "die"]]);
  await fake.run(async (client) => {
    await client.request("session/open", { sessionId: "s" });
    await client.request("session/open", { sessionId: "s" });
    await append(client, "1");
    assert.equal(fake.told("session/open").length, 6); // two before; one, two refusals, one after
  });
});

test("a session that cannot be opened again stops no other one, and is tried again by the next request on it", async () => {
  const fake = new Fake([["session/open", 2, "readOnly"], ["session/open", 3, "readOnly"], [APPEND, 1, "die"]]);
  await fake.run(async (client) => {
    await client.request("session/open", { sessionId: "s" });
    const back = restarted(client);
    await assert.rejects(append(client, "1"), { kind: "readOnly" });
    const { sessions, refused } = await back;
    assert.deepEqual([sessions, refused.map(({ sessionId, error }) => [sessionId, error.kind])], [[], [["s", "readOnly"]]]);
    await client.request("session/list");
    await Promise.all([append(client, "2"), append(client, "3")]);
    assert.deepEqual(fake.appended, ["2", "3"]);
  });
});

test("closing what went with the server, or never came back, is done already", async () => {
  const fake = new Fake([["session/close", 1, "die"], ["session/open", 3, "readOnly"], ["session/list", 1, "die"]]);
  await fake.run(async (client) => {
    await client.request("session/open", { sessionId: "a" });
    await client.request("session/close", { sessionId: "a" });
    await client.request("session/open", { sessionId: "b" });
    await client.request("session/list");
    await client.request("session/close", { sessionId: "b" });
    assert.deepEqual(fake.params("session/close"), [{ sessionId: "a" }]);
  });
});

test("a server that is killed is started again though nobody asks, and the events say so", async () => {
  const fake = new Fake();
  const client = fake.create();
  const seen = events(client);
  await client.start();
  const back = restarted(client);
  const first = client.pid ?? 0;
  process.kill(first, "SIGKILL");
  await back;
  assert.deepEqual(seen, ["connected", "lost", "connected", "restarted"]);
  assert.equal(client.state, "running");
  assert.notEqual(client.pid, first);
  await fake.end();
});

test("a client that was dropped because it did not read comes back, and says why it was dropped", async () => {
  const fake = new Fake([["session/list", 1, "drop"]]);
  await fake.run(async (client) => {
    const reasons: ConnectionLostError[] = [];
    client.on("lost", (reason) => reasons.push(reason));
    await client.request("session/open", { sessionId: "s" });
    const back = restarted(client);
    await client.request("session/list");
    assert.deepEqual((await back).sessions.map(({ sessionId }) => sessionId), ["s"]);
    assert.match(String(reasons[0]?.message), /exit code 3.*this connection does not read/);
    assert.deepEqual(reasons[0]?.exit, { code: 3, signal: null });
  });
});

for (const what of ["garbage", "closeOutput"]) {
  test(`a server that is of no more use (${what}) is replaced, and does not go on behind our back`, async () => {
    const fake = new Fake([["session/list", 1, what]]);
    await fake.run(async (client) => {
      const first = client.pid ?? 0;
      assert.ok("echo" in (await client.request("session/list")));
      assert.equal(alive(first), false);
      assert.equal(fake.count, 2);
    });
  });
}

test("a request that no server survives is given up", async () => {
  const fake = new Fake([[APPEND, 0, "die"]]);
  await fake.run(async (client) => {
    await assert.rejects(append(client, "1"), (error: unknown) => {
      assert.ok(error instanceof ConnectionLostError);
      assert.match(error.message, /exit code 9.*the fake server dies as told/s);
      return true;
    });
    assert.equal(fake.told(APPEND).length, 3);
  });
});

test("a server that does not come up again is given up, until it is asked for", async () => {
  const fake = new Fake([[APPEND, 1, "die"]], ["", "die", "die", "die"]);
  const client = fake.create();
  const seen = events(client);
  await client.start();
  await client.request("session/open", { sessionId: "s" });
  await assert.rejects(append(client, "1"), /given up after 3 starts in a row/);
  assert.equal(client.state, "gaveUp");
  await assert.rejects(client.request("session/list"), ConnectionLostError);
  assert.deepEqual(seen, ["connected", "lost", "gaveUp"]);
  await client.restart();
  await append(client, "2");
  assert.deepEqual(fake.appended, ["2"]);
  assert.equal(fake.told("session/open").length, 2);
  await fake.end();
});

test("a late start in a row succeeds", async () => {
  const fake = new Fake([[APPEND, 1, "die"]], ["", "die", "die", ""]);
  await fake.run(async (client) => {
    await append(client, "1");
    assert.deepEqual(fake.appended, ["1"]);
  });
});

test("a new server of another version is not tried again", async () => {
  const fake = new Fake([[APPEND, 1, "die"]], ["", "otherVersion"]);
  await fake.run(async (client) => {
    await assert.rejects(append(client, "1"), { kind: "protocolVersion" });
    assert.deepEqual([client.state, fake.count], ["gaveUp", 2]);
  });
});

test("without restarts a lost server is an error", async () => {
  const fake = new Fake([[APPEND, 1, "die"]]);
  await fake.run(
    async (client) => {
      const seen = events(client);
      await assert.rejects(append(client, "1"), /exit code 9/);
      await until(() => seen.length === 2);
      assert.deepEqual([seen, fake.count], [["lost", "gaveUp"], 1]);
    },
    { restarts: false },
  );
});

test("a restart that is asked for ends the server in good order and keeps what was under way", async () => {
  const fake = new Fake();
  await fake.run(async (client) => {
    const seen = events(client);
    await client.request("session/open", { sessionId: "s" });
    const calls = [append(client, "1"), client.restart(), append(client, "2")];
    await Promise.all(calls);
    assert.deepEqual(fake.appended, ["1", "2"]);
    assert.deepEqual(seen, ["connected", "restarted"]);
    assert.equal(fake.told("exit").length, 1);
  });
});

test("the time of a request runs on while there is no server", async () => {
  const fake = new Fake([["session/list", 1, "die"]], ["", "hang"]);
  await fake.run(async (client) => {
    await assert.rejects(client.request("session/list", {}, { timeout: 300 }), RequestTimeoutError);
    assert.equal(client.state, "restarting");
  });
});

test("a request that is given up before there is a server again is not sent", async () => {
  const fake = new Fake([["session/list", 1, "die"]]);
  await fake.run(async (client) => {
    const abort = new AbortController();
    const listed = client.request("session/list");
    await until(() => client.state === "restarting");
    const given = append(client, "never", { signal: abort.signal });
    abort.abort();
    await assert.rejects(given, { kind: "cancelled" });
    await listed;
    await client.request("session/list");
    assert.deepEqual(fake.appended, []);
  });
});

test("dispose during a recovery ends who waits, and leaves no process", async () => {
  const fake = new Fake([[APPEND, 1, "die"]], ["", "hang"]);
  const client = fake.create({ initializeTimeout: 60_000 });
  await client.start();
  const pending = append(client, "1");
  await until(() => fake.count === 2);
  client.dispose();
  await assert.rejects(pending, ClientClosedError);
  await until(() => fake.pids.every((pid) => !alive(pid)));
  assert.equal(fake.count, 2);
  await fake.end();
});

test("dispose in a listener to the loss is the end", async () => {
  const fake = new Fake();
  const client = fake.create();
  await client.start();
  client.on("lost", () => client.dispose());
  process.kill(client.pid ?? 0, "SIGKILL");
  await until(() => client.state === "disposed");
  await wait(100);
  assert.equal(fake.count, 1);
  await fake.end();
});

test("an owner that does not answer is asked again, and the request keeps its id", async () => {
  const fake = new Fake([[APPEND, 1, "locked"], [APPEND, 2, "locked"]]);
  await fake.run(async (client) => {
    await append(client, "1");
    const [first, second, third] = fake.params(APPEND);
    assert.deepEqual([second, third], [first, first]);
    assert.deepEqual(fake.appended, ["1"]);
  });
});

test("an owner that never answers is an error, when the patience, the time or the caller's wish is over", async () => {
  const fake = new Fake([[APPEND, 0, "locked"]]);
  await fake.run(
    async (client) => {
      await assert.rejects(append(client, "patience"), { kind: "sessionLocked" });
      const asked = fake.told(APPEND).length;
      assert.ok(asked > 1 && asked < 8, `asked ${asked} times in 2 s`); // after 0, 50, 150, 350 ms and so on
      const abort = new AbortController();
      const given = append(client, "wish", { signal: abort.signal });
      await until(() => fake.told(APPEND).some(({ params }) => (params["message"] as { content: string }).content === "wish"));
      abort.abort();
      await assert.rejects(given, { kind: "sessionLocked" });
    },
    { patience: 2_000 },
  );
  const other = new Fake([[APPEND, 0, "locked"]]);
  await other.run(async (client) => {
    await assert.rejects(append(client, "time", { timeout: 300 }), { kind: "sessionLocked" });
  });
});

test("who does not want to attach is not kept waiting for the lock", async () => {
  const fake = new Fake([["session/open", 0, "locked"]]);
  await fake.run(async (client) => {
    await assert.rejects(client.request("session/open", { sessionId: "s", attach: false }), { kind: "sessionLocked" });
    assert.equal(fake.told("session/open").length, 1);
  });
});

test("nothing is left rejected without a listener", async () => {
  // The test runner fails a file for an unhandled rejection.
  const fake = new Fake([[APPEND, 1, "die"]], ["", "die", "die", "die"]);
  const client = fake.create({ restarts: { ...QUICK, limit: 3 } });
  await client.start();
  const settled = await Promise.allSettled([append(client, "1"), client.request("session/list")]);
  assert.deepEqual(settled.map(({ status }) => status), ["rejected", "rejected"]);
  client.dispose();
  await wait(50);
  await fake.end();
});
