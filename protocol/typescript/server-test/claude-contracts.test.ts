/** The contracts that the Claude Agent SDK publishes for stores, on the real server. */

import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { ClaudeSessionStore, type SessionKey, type SessionStoreEntry } from "../src/claude/index.js";
import type { TimeleapClient } from "../src/index.js";
import { Real } from "../support/real.js";

const KEY = { projectKey: "proj", sessionId: "sess" };
const SUB: SessionKey = { ...KEY, subpath: "subagents/agent-1" };
const OTHER_SUB: SessionKey = { ...KEY, subpath: "subagents/agent-2" };

let real: Real;
let client: TimeleapClient;
let store: ClaudeSessionStore;

function x(members: { [member: string]: unknown }): SessionStoreEntry {
  return { type: "x", ...members };
}

/** As the SDK folds, only simpler: the last title wins. */
function fold(_: unknown, key: { sessionId: string }, entries: SessionStoreEntry[]) {
  return { sessionId: key.sessionId, mtime: 0, data: { title: entries.map((entry) => entry["customTitle"]).findLast(Boolean) } };
}

before(async () => {
  real = await Real.make();
  client = await real.start();
});

beforeEach(async () => {
  const { sessions } = await client.request("session/list", { limit: 1000 });
  for (const { sessionId } of sessions) {
    await client.request("session/delete", { sessionId });
  }
  store = new ClaudeSessionStore(client, { foldSessionSummary: fold });
});

after(() => real.end());

test("1: what is appended is loaded, in its order", async () => {
  await store.append(KEY, [x({ uuid: "b", n: 1 }), x({ uuid: "a", n: 2 })]);
  assert.deepEqual(await store.load(KEY), [x({ uuid: "b", n: 1 }), x({ uuid: "a", n: 2 })]);
});

test("2: an unknown key is null", async () => {
  assert.equal(await store.load({ projectKey: "proj", sessionId: "nope" }), null);
  await store.append(KEY, [x({ uuid: "x" })]);
  assert.equal(await store.load({ ...KEY, subpath: "nope" }), null);
});

test("3: several appends keep their order", async () => {
  const entries = ["z", "a", "m", "b"].map((uuid) => x({ uuid }));
  await store.append(KEY, entries.slice(0, 1));
  await store.append(KEY, entries.slice(1, 3));
  await store.append(KEY, entries.slice(3));
  assert.deepEqual(await store.load(KEY), entries);
});

test("4: appending nothing does nothing", async () => {
  await store.append(KEY, []);
  assert.equal(await store.load(KEY), null);
  await store.append(KEY, [x({ uuid: "a" })]);
  await store.append(KEY, []);
  assert.deepEqual(await store.load(KEY), [x({ uuid: "a" })]);
});

test("5: sub-agents have transcripts of their own", async () => {
  await store.append(KEY, [x({ uuid: "m" })]);
  await store.append(SUB, [x({ uuid: "s" })]);
  assert.deepEqual([await store.load(KEY), await store.load(SUB)], [[x({ uuid: "m" })], [x({ uuid: "s" })]]);
});

test("6: projects are kept apart", async () => {
  for (const projectKey of ["A", "B"]) {
    await store.append({ projectKey, sessionId: "s1" }, [x({ from: projectKey })]);
  }
  for (const projectKey of ["A", "B"]) {
    assert.deepEqual(await store.load({ projectKey, sessionId: "s1" }), [x({ from: projectKey })]);
    assert.equal((await store.listSessions(projectKey)).length, 1);
  }
});

test("7: the sessions of a project are listed, with times in milliseconds", async () => {
  const keys = [["proj", "a"], ["proj", "b"], ["other", "c"]] as const;
  for (const [projectKey, sessionId] of keys) {
    await store.append({ projectKey, sessionId }, [x({})]);
  }
  const sessions = await store.listSessions("proj");
  assert.deepEqual(sessions.map(({ sessionId }) => sessionId).sort(), ["a", "b"]);
  assert.ok(sessions.every(({ mtime }) => Number.isFinite(mtime) && mtime > 1e12));
  assert.deepEqual(await store.listSessions("never"), []);
});

test("8: sub-agents are not listed as sessions", async () => {
  await store.append(KEY, [x({})]);
  await store.append(SUB, [x({})]);
  assert.deepEqual((await store.listSessions("proj")).map(({ sessionId }) => sessionId), ["sess"]);
});

test("9: what was deleted is null; what never was is deleted without an error", async () => {
  await store.delete({ projectKey: "proj", sessionId: "never-written" });
  await store.append(KEY, [x({})]);
  await store.delete(KEY);
  assert.equal(await store.load(KEY), null);
});

test("10: a session takes its sub-agents along, and nothing else", async () => {
  const others = [{ ...KEY, sessionId: "sess2" }, { ...KEY, projectKey: "other-proj" }];
  for (const key of [KEY, SUB, OTHER_SUB, ...others]) {
    await store.append(key, [x({})]);
  }
  await store.delete(KEY);
  assert.deepEqual(await Promise.all([KEY, SUB, OTHER_SUB].map((key) => store.load(key))), [null, null, null]);
  assert.deepEqual(await Promise.all(others.map((key) => store.load(key))), [[x({})], [x({})]]);
  assert.deepEqual(await store.listSubkeys(KEY), []);
  assert.deepEqual((await store.listSessions("proj")).map(({ sessionId }) => sessionId), ["sess2"]);
});

test("11: a sub-agent alone is deleted", async () => {
  for (const key of [KEY, SUB, OTHER_SUB]) {
    await store.append(key, [x({})]);
  }
  await store.delete(SUB);
  assert.deepEqual([await store.load(SUB), await store.load(OTHER_SUB), await store.load(KEY)], [null, [x({})], [x({})]]);
  assert.deepEqual(await store.listSubkeys(KEY), ["subagents/agent-2"]);
});

test("12 and 13: the sub-agents of a session are listed, not the session itself", async () => {
  await store.append(KEY, [x({})]);
  assert.deepEqual(await store.listSubkeys(KEY), []);
  await store.append(SUB, [x({})]);
  await store.append(OTHER_SUB, [x({})]);
  await store.append({ projectKey: "proj", sessionId: "other-sess", subpath: "subagents/agent-x" }, [x({})]);
  assert.deepEqual((await store.listSubkeys(KEY)).sort(), ["subagents/agent-1", "subagents/agent-2"]);
  assert.deepEqual(await store.listSubkeys({ projectKey: "proj", sessionId: "never" }), []);
});

test("14: summaries are what the SDK folds of the main transcript, with the time of the list", async () => {
  const list = store.listSessionSummaries!;
  await store.append(KEY, [x({ customTitle: "first" }), x({})]);
  await store.append(KEY, [x({ customTitle: "second" })]);
  await store.append({ projectKey: "other", sessionId: "elsewhere" }, [x({})]);
  const [summary, ...others] = await list("proj");
  assert.deepEqual([others, summary?.sessionId, summary?.data], [[], "sess", { title: "second" }]);
  assert.ok(summary!.mtime >= (await store.listSessions("proj"))[0]!.mtime);
  await store.append(SUB, [x({ customTitle: "sub-agent" })]);
  assert.deepEqual((await list("proj"))[0]?.data, { title: "second" });
  assert.deepEqual(await list("never"), []);
  await store.delete(KEY);
  assert.deepEqual(await list("proj"), []);
});

test("without the SDK's fold it leaves summaries to the SDK", () => {
  assert.equal(new ClaudeSessionStore(client).listSessionSummaries, undefined);
});
