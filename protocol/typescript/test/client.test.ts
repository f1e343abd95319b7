/** The client and one server: the handshake, requests, what the server tells and asks, and the end. */

import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import {
  ClientClosedError,
  ConnectionLostError,
  RequestTimeoutError,
  StartFailedError,
  TimeleapClient,
  TimeleapError,
  type Notifications,
  type ProgressValue,
} from "../src/index.js";
import { alive, append, Fake, until, type Rule } from "../support/fake.js";

const SUMMARY: Rule = ["context/compact", 1, "ask"];

test("initialize says who we are and keeps what the caller said", async () => {
  const initialize = {
    clientInfo: { name: "test" },
    capabilities: { experimental: { other: 1 } },
    initializationOptions: { durability: "os" as const },
  };
  await new Fake().run(
    async (client) => {
      const { params } = client.server.capabilities.experimental.timeleap as unknown as { params: unknown };
      assert.deepEqual(params, {
        processId: process.pid,
        ...initialize,
        capabilities: { experimental: { other: 1, timeleap: { protocolVersion: 1, summarize: false, approvals: true } } },
      });
    },
    { initialize },
  );
});

test("the store goes along with the handshake, where no other user reads it", async () => {
  const store = "postgresql://agent@a,b:5433/timeleap?timeleap_read=standby";
  const fake = new Fake();
  await fake.run(
    async () => {
      assert.deepEqual(fake.params("initialize")[0]?.["initializationOptions"], { durability: "os", store });
      assert.ok(!JSON.stringify(fake.command).includes(store));
    },
    { store, initialize: { initializationOptions: { durability: "os" } } },
  );
});

test("params go by name, and an empty object where there are none", async () => {
  const fake = new Fake();
  await fake.run(async (client) => {
    await client.request("session/list");
    await client.request("session/list", { limit: 2 });
    assert.deepEqual(fake.params("session/list"), [{}, { limit: 2 }]);
  });
});

test("what changes something gets a request id, unless it has one", async () => {
  const fake = new Fake();
  await fake.run(async (client) => {
    await append(client, "a");
    await client.request("session/setTitle", { sessionId: "s", title: "t", requestId: "mine" });
    await client.request("context/getHistory", { sessionId: "s" });
    const [, appended, titled, read] = fake.told().slice(1);
    assert.match(String(appended?.params["requestId"]), /^[0-9a-f-]{36}$/);
    assert.equal(titled?.params["requestId"], "mine");
    assert.deepEqual(read?.params, { sessionId: "s" });
  });
});

test("an error reply has its kind, code and data", async () => {
  await new Fake([["session/getState", 1, "readOnly"]]).run(async (client) => {
    await assert.rejects(client.request("session/getState", { sessionId: "a" }), (error: unknown) => {
      assert.ok(error instanceof TimeleapError);
      assert.deepEqual([error.kind, error.code, error.retryable, error.data["extra"]], ["readOnly", 4004, false, 7]);
      return true;
    });
  });
});

test("an error reply without data gets its kind from its code", async () => {
  await new Fake([["session/reload", 1, "noData"]]).run(async (client) => {
    await assert.rejects(client.request("session/reload", { sessionId: "a" }), { kind: "checkpointNotFound" });
  });
});

test("notifications arrive before the reply, typed, until disposed of", async () => {
  await new Fake().run(async (client) => {
    const changes: Notifications["context/didChange"][] = [];
    const listening = client.onNotification("context/didChange", (change) => changes.push(change));
    const { head } = await append(client, "one");
    assert.deepEqual(changes.map((change) => [change.kind, change.head]), [["messagesAppended", head]]);
    listening.dispose();
    await append(client, "two");
    assert.equal(changes.length, 1);
  });
});

test("a listener that throws or rejects harms nobody and is reported", async () => {
  const fake = new Fake();
  await fake.run(async (client) => {
    let heard = 0;
    client.onNotification("context/didChange", () => {
      throw new Error("thrown in a listener");
    });
    client.onNotification("context/didChange", () => Promise.reject(new Error("rejected in a listener")));
    client.onNotification("context/didChange", () => (heard += 1));
    await append(client, "one");
    assert.equal(heard, 1);
    await until(() => /thrown in a listener[^]*rejected in a listener/.test(fake.log.join("")));
  });
});

test("a request that is not answered in time is cancelled and rejected", async () => {
  const fake = new Fake([["session/getState", 1, "silent"]]);
  await fake.run(async (client) => {
    await assert.rejects(client.request("session/getState", { sessionId: "a" }, { timeout: 50 }), RequestTimeoutError);
    await client.request("session/list");
    assert.deepEqual(fake.params("$/cancelRequest"), [{ id: 2 }]);
  });
});

test("progress is told, and extends the time", async () => {
  await new Fake([["context/search", 1, "workForLong"]]).run(async (client) => {
    const values: ProgressValue[] = [];
    const onProgress = (value: ProgressValue): void => {
      values.push(value);
      throw new Error("a progress callback that fails");
    };
    await client.request("context/search", { sessionId: "a", query: "x" }, { timeout: 5_000, onProgress }); // of six seconds, and 1.5 each
    assert.deepEqual(values.map((value) => "percentage" in value && value.percentage), [10, 50, 90]);
  });
});

test("a reply can be had as it came, an error not", async () => {
  await new Fake([["session/list", 2, "noData"]]).run(async (client) => {
    const lines: string[] = [];
    const onReply = (line: string): void => void lines.push(line);
    const result = await client.request("session/list", {}, { onReply });
    assert.deepEqual(lines.map((line) => (JSON.parse(line) as { result: unknown }).result), [result]);
    await assert.rejects(client.request("session/list", {}, { onReply }));
    assert.equal(lines.length, 1);
  });
});

test("a request that is given up resolves with its real result", async () => {
  const fake = new Fake([["session/setTitle", 1, "hold"]]);
  await fake.run(async (client) => {
    const abort = new AbortController();
    const given = client.request("session/setTitle", { sessionId: "a", title: "b" }, { signal: abort.signal });
    await until(() => fake.told("session/setTitle").length === 1);
    abort.abort();
    assert.deepEqual(await given, { head: "1" });
  });
});

test("a request that is given up beforehand is not sent", async () => {
  const fake = new Fake();
  await fake.run(async (client) => {
    await assert.rejects(append(client, "never", { signal: AbortSignal.abort() }), { kind: "cancelled" });
    await client.request("session/list");
    assert.deepEqual(fake.appended, []);
  });
});

test("what JSON cannot say and what is too long is refused here", async () => {
  const fake = new Fake();
  await fake.run(async (client) => {
    await assert.rejects(client.request("session/list", { limit: 1n as unknown as number }), TypeError);
    await assert.rejects(append(client, "x".repeat(100_000)), { kind: "tooLarge" });
    assert.equal((await append(client, "x")).head, "1");
  });
});

test("params are sent as they were when the request was made", async () => {
  const fake = new Fake();
  const client = fake.create();
  const message = { role: "user", content: "before" };
  const started = client.start();
  const appended = client.request("context/appendMessage", { sessionId: "s", message }); // waits for the start
  message.content = "after";
  await Promise.all([started, appended]);
  assert.deepEqual(fake.appended, ["before"]);
  await fake.end();
});

test("the server may ask for a summary, and that takes as long as it takes", async () => {
  await new Fake([SUMMARY]).run(
    async (client) => {
      const answered: unknown = await client.request("context/compact", { sessionId: "s" }, { timeout: 5_000 });
      assert.deepEqual(answered, { answered: { summary: "s: long" } });
    },
    {
      summarize: async ({ sessionId, prompt }) => {
        await new Promise((resolve) => setTimeout(resolve, 6_000));
        return { summary: `${sessionId}: ${String(prompt.content)}` };
      },
    },
  );
});

test("a summary that fails is told to the server", async () => {
  await new Fake([SUMMARY]).run(
    async (client) => {
      const answered: unknown = await client.request("context/compact", { sessionId: "s" });
      assert.deepEqual(answered, { answered: { code: -32603, message: "no model" } });
    },
    { summarize: () => Promise.reject(new Error("no model")) },
  );
});

test("a summary that is no longer wanted is given up, whether or not the summariser heeds it", async () => {
  const signals: AbortSignal[] = [];
  await new Fake([["context/compact", 1, "askAndCancel"]]).run(
    async (client) => {
      const answered: unknown = await client.request("context/compact", { sessionId: "s" });
      assert.deepEqual(answered, { answered: { code: -32800, message: "cancelled" } });
      assert.equal(signals[0]?.aborted, true);
    },
    {
      summarize: (_, signal) => {
        signals.push(signal);
        return new Promise(() => undefined);
      },
    },
  );
});

test("a client without a summariser says so", async () => {
  await new Fake([SUMMARY]).run(async (client) => {
    const answered = (await client.request("context/compact", { sessionId: "s" })) as unknown as { answered: { code: number } };
    assert.equal(answered.answered.code, -32601);
  });
});

test("every message can be seen", async () => {
  const seen: string[] = [];
  const trace = (direction: string, message: { [member: string]: unknown }): void => {
    seen.push(`${direction} ${String(message["method"] ?? message["id"])}`);
  };
  await new Fake().run(
    async (client) => {
      await append(client, "a");
      assert.deepEqual(seen, [
        "sent initialize",
        "received 1",
        "sent initialized",
        "sent context/appendMessage",
        "received context/didChange",
        "received 2",
      ]);
    },
    { trace },
  );
});

test("a server that does not answer initialize is given up, and gone", async () => {
  const fake = new Fake([], ["hang"]);
  const client = fake.create({ initializeTimeout: 300 });
  await assert.rejects(client.start(), StartFailedError);
  assert.equal(client.state, "disposed");
  await until(() => fake.pids.every((pid) => !alive(pid)));
  await fake.end();
});

test("a server that dies at the start says why", async () => {
  const fake = new Fake([], ["die"]);
  await assert.rejects(fake.create().start(), /the fake server dies as told/);
  await fake.end();
});

test("a server that speaks another version is refused, and gone", async () => {
  const fake = new Fake([], ["otherVersion"]);
  const error = { code: 4017, kind: "protocolVersion", message: "the server speaks version 2 of the protocol, this client version 1" };
  await assert.rejects(fake.create().start(), error);
  await until(() => fake.pids.every((pid) => !alive(pid)));
  await fake.end();
});

test("a program that does not exist, and a folder that does not, are errors in words", async () => {
  const missing = join(__dirname, "no-such-program");
  await assert.rejects(TimeleapClient.start({ command: missing }), (error: unknown) => {
    assert.ok(error instanceof StartFailedError && error instanceof ConnectionLostError);
    assert.match(error.message, /cannot start .*no-such-program.*there is no such program; put it on the PATH/);
    return true;
  });
  await assert.rejects(TimeleapClient.start({ command: process.execPath, cwd: missing }), /cannot start .* in .*no-such-program/);
  await assert.rejects(TimeleapClient.start({ command: "\0" }), StartFailedError);
});

test("a client is started once", async () => {
  await new Fake().run(async (client) => {
    await assert.rejects(client.start(), ClientClosedError);
  });
});

test("before the start there is nothing to ask", async () => {
  const client = new Fake().create();
  assert.equal(client.state, "stopped");
  await assert.rejects(client.request("session/list"), ClientClosedError);
  assert.throws(() => client.server, ClientClosedError);
});

test("shutdown waits for what was asked, ends the process, and is no loss", async () => {
  const fake = new Fake([["context/search", 1, "work"]]);
  const client = fake.create();
  const events: string[] = [];
  client.on("lost", () => events.push("lost"));
  client.on("state", (state) => events.push(state));
  await client.start();
  const asked = client.request("session/list");
  assert.deepEqual(await client.shutdown(), { code: 0, signal: null });
  assert.ok(await asked);
  assert.deepEqual(events, ["starting", "running", "disposed"]);
  await assert.rejects(client.request("session/list"), ClientClosedError);
  assert.deepEqual(await client.shutdown(), { code: null, signal: null });
  await fake.end();
});

test("the exit code of the server is told", async () => {
  const fake = new Fake([], ["badExit"]);
  const client = fake.create();
  await client.start();
  assert.deepEqual(await client.shutdown(), { code: 1, signal: null });
  await fake.end();
});

test("dispose rejects what is pending, ends the server by the end of its input, and may be called twice", async () => {
  const fake = new Fake([["session/getState", 1, "silent"]]);
  const client = fake.create();
  await client.start();
  const pending = client.request("session/getState", { sessionId: "a" });
  const pid = client.pid ?? 0;
  client.dispose();
  client.dispose();
  await assert.rejects(pending, ClientClosedError);
  await until(() => !alive(pid));
  assert.deepEqual(fake.ends, ["end of input"]);
  await fake.end();
});

test("the log of the server goes where it is asked to", async () => {
  const fake = new Fake();
  await fake.run(async () => until(() => fake.log.join("").includes("a line of the log")));
});

test("types: what does not fit does not compile", async () => {
  await new Fake().run(async (client) => {
    // @ts-expect-error: no such method
    const unknown = client.request("session/explode", {}).catch(() => undefined);
    // @ts-expect-error: `yolo` is missing
    const incomplete = client.request("session/setYolo", { sessionId: "a" }).catch(() => undefined);
    // @ts-expect-error: `limit` is a number
    const wrong = client.request("session/list", { limit: "2" }).catch(() => undefined);
    // @ts-expect-error: no such event
    client.on("explosion", () => undefined);
    client.onNotification("context/didChange", (change) => {
      if (change.kind === "checkpointCreated") {
        assert.ok(change.checkpoint.uid);
        // @ts-expect-error: of another kind
        assert.ok(change.firstIndex);
      }
    });
    await Promise.all([unknown, incomplete, wrong]);
  });
});
