/** The client against the real server. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { Notifications, TimeleapClient, TimeleapError } from "../src/index.js";
import { Real } from "../support/real.js";

let real: Real;
let client: TimeleapClient;

before(async () => {
  real = await Real.make();
  client = await real.start();
});

after(() => real.end());

test("the server announces every method of this client", () => {
  const { protocolVersion, methods } = client.server.capabilities.experimental.timeleap;
  assert.equal(protocolVersion, 1);
  assert.ok("context/appendMessage" in methods);
});

test("append, checkpoint, revert and its undo, with their notifications", async () => {
  const changes: Notifications["context/didChange"][] = [];
  client.onNotification("context/didChange", (change) => changes.push(change));
  const { sessionId } = await client.request("session/open", { title: "From Node" });

  await client.request("context/appendMessage", { sessionId, message: { role: "user", content: "one" } });
  const { checkpoint } = await client.request("context/checkpoint", { sessionId, label: "here" });
  const two = { role: "assistant", content: [{ type: "text", text: "two" }], vendor: { kept: true } };
  await client.request("context/appendMessage", { sessionId, message: two });

  const reverted = await client.request("context/revertTo", { sessionId, checkpointUid: checkpoint.uid });
  assert.equal(reverted.context.messageCount, 1);
  const timelineId = reverted.timelineId;
  assert.ok(timelineId);
  await client.request("context/restoreTimeline", { sessionId, timelineId });

  const { messages } = await client.request("context/getHistory", { sessionId });
  assert.deepEqual(messages.map((entry) => entry.message), [{ role: "user", content: "one" }, two]);
  assert.deepEqual(
    changes.map((change) => change.kind),
    ["messagesAppended", "checkpointCreated", "messagesAppended", "reverted", "timelineRestored"],
  );
});

test("undo goes back step by step, and redo forth again", async () => {
  const kinds: string[] = [];
  client.onNotification("context/didChange", (change) => kinds.push(change.kind));
  const { sessionId } = await client.request("session/open");
  const messages = ["one", "two", "three"].map((content) => ({ role: "user", content }));
  await client.request("context/appendMessage", { sessionId, messages });
  await client.request("context/revertTo", { sessionId, messageIndex: 2 });
  const { context } = await client.request("context/revertTo", { sessionId, messageIndex: 1 });
  assert.deepEqual([context.messageCount, context.canUndo, context.canRedo], [1, 2, 0]);
  const undone = await client.request("context/undo", { sessionId, steps: 2 });
  assert.deepEqual([undone.context.messageCount, undone.canUndo, undone.canRedo], [3, 0, 2]);
  assert.deepEqual(undone.steps.map((step) => step.kind), ["revert", "revert"]);
  const redone = await client.request("context/redo", { sessionId });
  assert.equal(redone.context.messageCount, 2);
  await assert.rejects(client.request("context/undo", { sessionId, steps: 9 }), (error: TimeleapError) => {
    assert.deepEqual([error.kind, error.code, error.data["canUndo"]], ["nothingToUndo", 4018, 1]);
    return true;
  });
  assert.deepEqual(kinds, ["messagesAppended", "reverted", "reverted", "undone", "redone"]);
});

test("a repeated request id is answered, not repeated", async () => {
  const { sessionId } = await client.request("session/open");
  const params = { sessionId, message: { role: "user", content: "once" }, requestId: "r-1" };
  const first = await client.request("context/appendMessage", params);
  const second = await client.request("context/appendMessage", params);
  assert.deepEqual([first.duplicate, second.duplicate, second.messageCount], [undefined, true, 1]);
});

test("a refused request names its field", async () => {
  const wrong = { sessionId: "a", mysterious: 1 };
  await assert.rejects(client.request("session/close", wrong), (error: { kind: string; data: { errors: unknown } }) => {
    assert.equal(error.kind, "invalidParams");
    assert.match(JSON.stringify(error.data.errors), /mysterious/);
    return true;
  });
});

test("shutdown ends the server with 0", async () => {
  assert.deepEqual(await client.shutdown(), { code: 0, signal: null });
});
