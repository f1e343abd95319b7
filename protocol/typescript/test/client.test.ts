import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import {
  ConnectionClosedError,
  RequestTimeoutError,
  TimeleapClient,
  TimeleapError,
  type ClientOptions,
  type Notifications,
} from "../src/index.js";

const FAKE = join(__dirname, "..", "support", "fake-server.js");

async function withServer(
  mode: string,
  body: (client: TimeleapClient) => Promise<void>,
  options: ClientOptions = {},
): Promise<void> {
  const client = await TimeleapClient.start({ command: process.execPath, args: [FAKE, mode] }, { onLog: () => undefined, ...options });
  try {
    await body(client);
  } finally {
    client.dispose();
  }
}

test("initialize says who we are and keeps what the caller said", async () => {
  const initialize = {
    clientInfo: { name: "test" },
    capabilities: { experimental: { other: 1 } },
    initializationOptions: { durability: "os" as const },
  };
  await withServer(
    "good",
    async (client) => {
      const { params } = client.server.capabilities.experimental.timeleap as unknown as { params: unknown };
      assert.deepEqual(params, {
        processId: process.pid,
        ...initialize,
        capabilities: { experimental: { other: 1, timeleap: { protocolVersion: 1, summarize: false } } },
      });
    },
    { initialize },
  );
});

test("params go by name, and an empty object where there are none", async () => {
  await withServer("good", async (client) => {
    assert.equal((await client.request("session/list")).nextCursor, "{}");
    assert.equal((await client.request("session/list", { limit: 2 })).nextCursor, '{"limit":2}');
  });
});

test("an error reply has its kind, code and data", async () => {
  await withServer("good", async (client) => {
    await assert.rejects(client.request("session/getState", { sessionId: "a" }), (error: unknown) => {
      assert.ok(error instanceof TimeleapError);
      assert.deepEqual([error.kind, error.code, error.retryable], ["sessionNotFound", 4001, false]);
      assert.equal(error.data["extra"], 7);
      return true;
    });
  });
});

test("an error reply without data gets its kind from its code", async () => {
  await withServer("good", async (client) => {
    await assert.rejects(client.request("session/reload", { sessionId: "a" }), { kind: "checkpointNotFound" });
  });
});

test("notifications arrive, typed, until disposed of", async () => {
  await withServer("good", async (client) => {
    const warnings: Notifications["session/warning"][] = [];
    const progress: Notifications["$/progress"][] = [];
    const listening = client.onNotification("session/warning", (params) => warnings.push(params));
    client.onNotification("$/progress", (params) => progress.push(params));
    await client.request("session/list");
    listening.dispose();
    await client.request("session/list");
    assert.deepEqual(warnings, [{ sessionId: "a", kind: "test", message: "first" }]);
    assert.deepEqual(progress[0], { token: "t", value: { kind: "begin", title: "Looking" } });
    assert.equal(progress.length, 2);
  });
});

test("a request that is not answered in time is cancelled and rejected", async () => {
  await withServer("good", async (client) => {
    const late = client.request("session/setTitle", { sessionId: "a", title: "b" }, { timeout: 50 });
    await assert.rejects(late, RequestTimeoutError);
    assert.deepEqual((await client.request("session/list")).sessions, []);
  });
});

test("a request that is given up resolves with its real result", async () => {
  await withServer("good", async (client) => {
    const abort = new AbortController();
    const given = client.request("session/setTitle", { sessionId: "a", title: "b" }, { signal: abort.signal });
    setTimeout(() => abort.abort(), 20);
    assert.deepEqual(await given, { head: "done all the same" });
  });
});

test("the server may ask for a summary", async () => {
  await withServer(
    "good",
    async (client) => {
      const answered: unknown = await client.request("context/compact", { sessionId: "s" });
      assert.deepEqual(answered, { summary: "s: long" });
    },
    { summarize: async ({ sessionId, prompt }) => ({ summary: `${sessionId}: ${String(prompt.content)}` }) },
  );
});

test("a summary that fails is told to the server", async () => {
  const summarize = (): Promise<never> => Promise.reject(new Error("no model"));
  await withServer(
    "good",
    async (client) => {
      const answered = (await client.request("context/compact", { sessionId: "s" })) as unknown as { failed: string };
      assert.match(answered.failed, /no model/);
    },
    { summarize },
  );
});

for (const [mode, reason] of [
  ["writes-garbage", /broken/],
  ["dies", /closed|ended/],
] as const) {
  test(`a server that ${mode} loses the connection, for this request and all others`, async () => {
    await withServer(mode, async (client) => {
      const reasons: string[] = [];
      client.onClose((error) => reasons.push(error.message));
      const other = client.request("session/setTitle", { sessionId: "a", title: "b" });
      const pending = [client.request("context/getHistory", { sessionId: "a" }), other];
      for (const settled of await Promise.allSettled(pending)) {
        assert.equal(settled.status, "rejected");
        assert.ok(settled.reason instanceof ConnectionClosedError);
      }
      await assert.rejects(client.request("session/list"), ConnectionClosedError);
      assert.equal(reasons.length, 1);
      assert.match(String(reasons[0]), reason);
    });
  });
}

test("a server that does not answer initialize is given up", async () => {
  const started = withServer("silent", async () => undefined, { initializeTimeout: 300 });
  await assert.rejects(started, RequestTimeoutError);
});

test("a server of another version is an error", async () => {
  await assert.rejects(withServer("other-version", async () => undefined), { kind: "protocolVersion" });
});

test("a program that does not exist is an error", async () => {
  const started = TimeleapClient.start({ command: join(__dirname, "no-such-program") });
  await assert.rejects(started, /cannot be started/);
});

test("shutdown ends the process, and is no loss of the connection", async () => {
  await withServer("good", async (client) => {
    client.onClose(() => assert.fail("told of a loss"));
    assert.deepEqual(await client.shutdown(), { code: 0, signal: null });
    await assert.rejects(client.request("session/list"), ConnectionClosedError);
  });
});

test("the exit code of the server is told", async () => {
  await withServer("bad-exit", async (client) => {
    assert.deepEqual(await client.shutdown(), { code: 1, signal: null });
  });
});

test("dispose rejects what is pending, and may be called twice", async () => {
  await withServer("good", async (client) => {
    const pending = client.request("session/setTitle", { sessionId: "a", title: "b" });
    client.dispose();
    client.dispose();
    await assert.rejects(pending, ConnectionClosedError);
  });
});

test("the log of the server goes where it is asked to", async () => {
  let log = "";
  const arrived = new Promise<void>((resolve) => {
    const onLog = (text: string): void => {
      log += text;
      resolve();
    };
    void withServer("good", async () => arrived, { onLog });
  });
  await arrived;
  assert.match(log, /a line of the log/);
});

test("types: what does not fit does not compile", async () => {
  await withServer("good", async (client) => {
    // @ts-expect-error: no such method
    const unknown = client.request("session/explode", {}).catch(() => undefined);
    // @ts-expect-error: `yolo` is missing
    const incomplete = client.request("session/setYolo", { sessionId: "a" }).catch(() => undefined);
    // @ts-expect-error: `limit` is a number
    const wrong = client.request("session/list", { limit: "2" }).catch(() => undefined);
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
