/** The store of the Claude Agent SDK: what a window sees and may do, and input that is odd or hostile. */

import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { ClaudeSessionStore, RevertedError, StaleAgentError, type Continuation, type SessionStoreEntry } from "../src/claude/index.js";
import type { NewItem, TimeleapClient } from "../src/index.js";
import { Real } from "../support/real.js";
import { KEY, answer, prompt, turn } from "../support/transcript.js";
import { Window } from "../support/window.js";

const TWO = [...turn(1), ...turn(2, "a1")];

let real: Real;
let client: TimeleapClient;
let window: Window;
let store: ClaudeSessionStore;

before(async () => {
  real = await Real.make();
  client = await real.start("agent");
  window = new Window(await real.start("window"));
});

beforeEach(async () => {
  const { sessions } = await client.request("session/list", { limit: 1000 });
  for (const { sessionId } of sessions) {
    await client.request("session/delete", { sessionId });
  }
  store = new ClaudeSessionStore(client);
});

after(() => real.end());

test("prompts have checkpoints and results of tools have none", async () => {
  await store.append(KEY, TWO);
  const sessionId = await window.only();
  assert.deepEqual(await window.labels(sessionId), ["question 1", "question 2"]);
  const { title, context } = await window.client.request("session/getState", { sessionId });
  assert.deepEqual([title, context.tokenCount], ["question 1", 201]);
});

test("a call and its result are shown as such", async () => {
  await store.append(KEY, turn(1));
  const { messages } = await window.client.request("context/getHistory", { sessionId: await window.only() });
  const [, call, outcome] = messages.map((entry) => entry.message);
  assert.deepEqual(call!.tool_calls![0]!.function, { name: "Bash", arguments: '{"command": "echo 1"}' });
  assert.deepEqual([outcome!.role, outcome!.tool_call_id], ["tool", call!.tool_calls![0]!.id]);
});

test("what no person asked gets no checkpoint", async () => {
  await store.append(KEY, [
    prompt("m1", "meta", null, { isMeta: true }),
    prompt("m2", "of a sub-agent", null, { isSidechain: true }),
    prompt("m3", "summary", null, { isCompactSummary: true }),
    prompt("m4", "<local-command-stdout>x</local-command-stdout>"),
    prompt("m5", "[Request interrupted by user]"),
    answer("m6", "q", "text"),
    { type: "system", subtype: "compact_boundary" },
  ]);
  assert.deepEqual(await window.labels(await window.only()), ["compacted"]);
});

test("what is reverted is not loaded, and an undo brings it back", async () => {
  await store.append(KEY, TWO);
  const sessionId = await window.only();
  await window.revert(sessionId, "question 2");
  assert.deepEqual(await store.load(KEY), turn(1));
  await window.client.request("context/undo", { sessionId });
  assert.deepEqual(await store.load(KEY), TWO);
});

test("after a revert a resumed agent goes on in the same log", async () => {
  await store.append(KEY, TWO);
  await window.revert(await window.only(), "question 2");
  const resumed = new ClaudeSessionStore(client);
  await resumed.load(KEY);
  await resumed.append(KEY, turn(3, "a1"));
  assert.deepEqual(await resumed.load(KEY), [...turn(1), ...turn(3, "a1")]);
  assert.equal((await window.sessions()).length, 1);
});

test("when all is reverted it says so, and nothing else is resumed", async () => {
  await store.append(KEY, turn(1));
  await window.revert(await window.only(), "question 1");
  await assert.rejects(store.load(KEY), (error) => error instanceof RevertedError && /undo the revert/.test(error.message));
});

test("an agent that still runs is not spliced into the log reverted under it", async () => {
  const told: Continuation[] = [];
  store = new ClaudeSessionStore(client, { onContinuation: (continuation) => told.push(continuation) });
  await store.append(KEY, TWO);
  await window.revert(await window.only(), "question 2");
  const late = [answer("b1", "a2", "still here"), { type: "mode", mode: "plan" }];
  await store.append(KEY, late);
  await store.append(KEY, turn(3, "b1"));
  assert.deepEqual(await store.load(KEY), turn(1));
  const [{ continuedAs, title } = {}] = told;
  assert.deepEqual(await store.load({ ...KEY, sessionId: continuedAs! }), [...TWO, ...late, ...turn(3, "b1")]);
  assert.deepEqual([told.length, title], [1, "question 1 (continued before revert)"]);
});

test("a stale agent is known by the timelines too", async () => {
  await store.append(KEY, TWO);
  await window.revert(await window.only(), "question 2");
  const other = new ClaudeSessionStore(client); // has never seen what was reverted
  await other.append(KEY, [answer("b1", "a2", "still here")]);
  assert.deepEqual(await other.load(KEY), turn(1));
  assert.equal((await window.sessions()).length, 2);
});

test("a stale agent can be refused", async () => {
  store = new ClaudeSessionStore(client, { onStale: "refuse" });
  await store.append(KEY, TWO);
  await window.revert(await window.only(), "question 2");
  await assert.rejects(store.append(KEY, [answer("b1", "a2", "still here")]), StaleAgentError);
  assert.deepEqual(await store.load(KEY), turn(1));
  assert.equal((await window.sessions()).length, 1);
});

test("after an undo the agent goes on in its own log", async () => {
  await store.append(KEY, TWO);
  const sessionId = await window.only();
  await window.revert(sessionId, "question 2");
  await window.client.request("context/undo", { sessionId });
  await store.append(KEY, turn(3, "a2"));
  assert.deepEqual(await store.load(KEY), [...TWO, ...turn(3, "a2")]);
});

test("what a window appends does not stop the agent, and is not told to it", async () => {
  await store.append(KEY, turn(1));
  const message = { role: "user", content: "a note" };
  await window.client.request("context/appendMessage", { sessionId: await window.only(), message });
  await store.append(KEY, turn(2, "a1"));
  assert.deepEqual(await store.load(KEY), TWO);
});

test("a batch that is sent again is kept once", async () => {
  await store.append(KEY, turn(1));
  await store.append(KEY, turn(1));
  await new ClaudeSessionStore(client).append(KEY, TWO.slice(2));
  const uuids = (await store.load(KEY))!.map((entry) => entry.uuid).filter(Boolean);
  assert.deepEqual(uuids, ["q1", "c1", "r1", "a1", "q2", "c2", "r2", "a2"]);
});

test("entries without uuid are kept each time", async () => {
  const mode = { type: "mode", mode: "plan" };
  for (let time = 0; time < 3; time++) {
    await store.append(KEY, [mode]);
  }
  assert.deepEqual(await store.load(KEY), [mode, mode, mode]);
});

function nested(levels: number): SessionStoreEntry {
  let value: unknown = "end";
  for (let level = 0; level < levels; level++) {
    value = [value];
  }
  return { type: "deep", value };
}

const ODD = [
  { uuid: "no-type" },
  prompt("u1", "lone \ud800, cut short"),
  { type: "x\udfff", "\udc00": ["\ud83d"], emoji: "\u{1f600}" },
  { type: "x", n: [1e300, 0.1, 2 ** 70, -(2 ** 63), 2 ** 63, 2 ** 53 + 2] },
  prompt("u2", null),
  prompt("u3", ["text", 1]),
  { type: "user", uuid: "u4", message: { role: "_checkpoint", content: "x" } },
  answer("u5", "u4", { no: "type" }),
  { type: "assistant", uuid: "u6", message: { role: "assistant", content: [] } },
  { type: "user", _tl: { r: "x" }, role: "_usage", uuid: "u7", message: "text" },
  prompt("u8", [{ type: "tool_result", tool_use_id: 5 }]),
  prompt("u9", [{ type: "tool_result", tool_use_id: "t", content: [{ type: "text", text: "parts" }] }]),
  answer("u10", "u9", { type: "thinking", thinking: "hm", signature: "s" }),
  { type: "torn", text: 'the end of a line {"type":"us' },
  { type: "zeros", text: "\0\0\u2028\r\n" },
  { type: "user", uuid: 7, parentUuid: { a: 1 }, message: { role: "user", content: "uuid is a number" } },
  JSON.parse('{"type":"x","__proto__":{"polluted":true},"constructor":1}'),
  ["no", "object"],
  nested(300),
] as unknown as SessionStoreEntry[];

test("odd entries come back equal", async () => {
  await store.append(KEY, ODD);
  assert.deepEqual(await store.load(KEY), ODD);
});

test("what cannot be written as text is refused, and nothing of it is stored", async () => {
  await store.append(KEY, [{ type: "x" }]);
  await assert.rejects(store.append(KEY, [nested(100_000)]), /nested too deeply/);
  assert.deepEqual(await store.load(KEY), [{ type: "x" }]);
});

for (const item of [
  { record: { role: "_claude", content: "" } },
  { record: { role: "_claude", content: "", text: "{torn" } },
  { record: { role: "_claude", content: "", text: 5 } },
  { record: { role: "_claude-part", content: "", number: 0, count: 1 } },
  { role: "user", content: "x", claude: { entry: 5, content: "message" } },
  { role: "user", content: "x", claude: { entry: { message: { content: [] } }, content: "result" } },
  { role: "user", content: "x", claude: "text" },
]) {
  test(`a record that somebody made up is passed over: ${JSON.stringify(item)}`, async () => {
    await store.append(KEY, turn(1));
    const messages = [item] as NewItem[];
    await window.client.request("context/appendMessage", { sessionId: await window.only(), messages });
    await store.append(KEY, turn(2, "a1"));
    assert.deepEqual(await new ClaudeSessionStore(client).load(KEY), TWO);
  });
}

test("a batch larger than a request is kept whole", async () => {
  store = new ClaudeSessionStore(client, { maxCharacters: { batch: 500 } });
  await store.append(KEY, TWO);
  assert.deepEqual(await store.load(KEY), TWO);
});

test("an entry larger than a record is kept in parts, which cut no character in two", async () => {
  const options = { maxCharacters: { record: 1001 } };
  store = new ClaudeSessionStore(client, options);
  const big = prompt("big", "\u{1f600}".repeat(4000));
  await store.append(KEY, [...turn(1), big, ...turn(2, "big")]);
  await new ClaudeSessionStore(client, options).append(KEY, [big]);
  assert.deepEqual(await store.load(KEY), [...turn(1), big, ...turn(2, "big")]);
});

test("keys with separators are keys of their own", async () => {
  const keys = [
    { projectKey: "a/b", sessionId: "c" },
    { projectKey: "a", sessionId: "b/c" },
    { projectKey: "a", sessionId: "b", subpath: "c" },
    { projectKey: "a", sessionId: "../../b", subpath: '"],["' },
    { projectKey: "", sessionId: "\0" },
    { projectKey: "1:a", sessionId: "b" },
  ];
  for (const [n, key] of keys.entries()) {
    await store.append(key, [{ type: "x", n }]);
  }
  for (const [n, key] of keys.entries()) {
    assert.deepEqual(await store.load(key), [{ type: "x", n }]);
  }
  assert.deepEqual(await store.listSubkeys({ projectKey: "a", sessionId: "b" }), ["c"]);
});

test("sources that are no keys are not listed", async () => {
  for (const key of ["text", "[1]", "{}", '["p"]', '["p", 2]', '["p", "s", "sub", "more"]']) {
    await client.request("session/open", { source: { kind: "claude-code", key } });
  }
  await store.append({ projectKey: "p", sessionId: "s" }, [{ type: "x" }]);
  assert.deepEqual((await store.listSessions("p")).map(({ sessionId }) => sessionId), ["s"]);
});

test("two processes write one key and lose nothing", async () => {
  const stores = [store, new ClaudeSessionStore(await real.start("second"))];
  await Promise.all(
    stores.map(async (each, number) => {
      for (let at = 0; at < 10; at++) {
        await each.append(KEY, [prompt(`${number}-${at}`, "x", at > 0 ? `${number}-${at - 1}` : null)]);
      }
    }),
  );
  const uuids = (await store.load(KEY))!.map((entry) => entry.uuid!);
  for (const number of ["0", "1"]) {
    const own = uuids.filter((uuid) => uuid.startsWith(number));
    assert.deepEqual(own, Array.from({ length: 10 }, (_, at) => `${number}-${at}`));
  }
  assert.equal(uuids.length, 20);
});

test("a server killed between write and reply leaves each entry once", async () => {
  const turns = Array.from({ length: 6 }, (_, n) => turn(n, n > 0 ? `a${n - 1}` : null));
  await store.append(KEY, turns[0]!);
  const writing = turns.slice(1).map((entries) => store.append(KEY, entries));
  process.kill(client.pid!, "SIGKILL");
  await Promise.all(writing);
  assert.deepEqual(await store.load(KEY), turns.flat());
});

test("only so many transcripts are open, and closed ones go on", async () => {
  store = new ClaudeSessionStore(client, { maxOpen: 3 });
  const keys = Array.from({ length: 8 }, (_, number) => ({ ...KEY, subpath: `subagents/${number}` }));
  for (const key of [...keys, ...keys]) {
    await store.append(key, [{ type: "x" }]);
  }
  const { sessions } = await window.client.request("session/list", {});
  const owned = sessions.filter((session) => session.owner).length;
  assert.equal(owned, 3);
  for (const key of keys) {
    assert.deepEqual(await store.load(key), [{ type: "x" }, { type: "x" }]);
  }
});
