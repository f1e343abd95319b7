/** Approvals: one process asks, a window of another one decides. */

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { handleApprovals, type TimeleapClient, type TimeleapError } from "../src/index.js";
import { until } from "../support/fake.js";
import { Real } from "../support/real.js";

let real: Real;
let asker: TimeleapClient;
let window: TimeleapClient;

before(async () => {
  real = await Real.make();
  asker = await real.start("agent");
  window = await real.start("editor", { requestTimeout: 5000 });
});

after(() => real.end());

async function opened(sessionId: string): Promise<void> {
  await asker.request("session/open", { sessionId });
  await window.request("session/open", { sessionId });
}

const failed = (error: unknown): void => assert.fail(String(error));

test("a handler decides what waits already and what comes", async () => {
  await opened("s");
  const sessionId = "s";
  const first = asker.request("approval/request", { sessionId, action: "run", detail: { command: "ls" } });
  while ((await window.request("approval/list", { sessionId })).approvals.length === 0);
  const seen: unknown[] = [];
  const handling = handleApprovals(
    window,
    sessionId,
    ({ action, detail }) => {
      seen.push([action, detail]);
      return action === "run" ? { decision: "approve" } : { decision: "reject", reason: "no" };
    },
    failed,
  );
  const { decision, decidedBy, automatic } = await first;
  assert.deepEqual([decision, decidedBy.client, automatic], ["approve", "editor", false]);
  const second = await asker.request("approval/request", { sessionId, action: "delete" });
  assert.deepEqual([second.decision, second.reason], ["reject", "no"]);
  assert.deepEqual(seen, [["run", { command: "ls" }], ["delete", undefined]]);
  handling.dispose();
});

test("a handler that leaves it to others hears that it is resolved", async () => {
  await opened("t");
  const sessionId = "t";
  let resolved: AbortSignal | undefined;
  const handling = handleApprovals(
    window,
    sessionId,
    (_, signal) => {
      resolved = signal;
      return undefined;
    },
    failed,
  );
  const request = asker.request("approval/request", { sessionId, action: "run", timeout: 0.5 });
  await assert.rejects(request, (error: TimeleapError) => error.kind === "approvalTimeout" && error.code === 4027);
  await until(() => resolved?.aborted === true);
  handling.dispose();
});

test("a request for an approval carries an id, and no time limit of ours cuts it short", async () => {
  await opened("u");
  const sessionId = "u";
  const sent: { method?: string; params?: Record<string, unknown> }[] = [];
  const trace = (direction: string, message: unknown): unknown => direction === "sent" && sent.push(message as never);
  const client = await real.start("patient", { requestTimeout: 50, trace });
  await client.request("session/open", { sessionId }, { timeout: 60_000 });
  const request = client.request("approval/request", { sessionId, action: "run", timeout: 1 });
  await assert.rejects(request, (error: TimeleapError) => error.kind === "approvalTimeout");
  const asked = sent.find(({ method }) => method === "approval/request");
  assert.match(String(asked?.params?.["requestId"]), /^[0-9a-f-]{36}$/);
});
