import { expect, test } from "vitest";
import type { ApprovalRequest } from "timeleap-client";
import { Approvals } from "../../src/features/approvals/approvals.js";
import { approvalText, gistOfApproval, isShownWhole, visible } from "../../src/shared/text/approval.js";
import { approvalsShown } from "../../src/features/approvals/statusItem.js";
import { EventEmitter } from "../support/vscode.js";

const request = (approvalId: string, more: Partial<ApprovalRequest> = {}): ApprovalRequest => ({ approvalId, action: "run", requestedAt: `2026-01-01T00:00:0${approvalId}Z`, ...more });

/** Open sessions on a server that says what waits when it is told to. */
function world(...ids: string[]) {
  const events = { didRequest: new EventEmitter<unknown>(), didResolve: new EventEmitter<unknown>(), list: new EventEmitter<undefined>(), connect: new EventEmitter<undefined>() };
  const answers: ((approvals: ApprovalRequest[]) => void)[] = [];
  const sessions = ids.map((id) => ({ id, request: () => new Promise((resolve) => answers.push((approvals) => resolve({ approvals }))) }));
  const sidecar = {
    onNotification: (name: string, listener: (params: unknown) => void) => events[name.replace("approval/", "") as "didRequest"].event(listener),
    onDidConnect: events.connect.event,
  };
  const open = { all: sessions, onDidChangeList: events.list.event };
  const approvals = new Approvals(sidecar as never, open as never);
  const waiting = (): string[] => approvals.pending().map((pending) => pending.request.approvalId);
  return { ...events, answers, open, approvals, waiting };
}

test("what waits is listed once for each open session, together with what came meanwhile, oldest first", async () => {
  const { list, answers, didRequest, waiting } = world("a", "b");
  list.fire(undefined);
  list.fire(undefined);
  expect(answers).toHaveLength(2);
  didRequest.fire({ sessionId: "b", approval: request("2") });
  answers[0]!([request("3")]);
  answers[1]!([request("1"), request("2")]);
  await expect.poll(waiting).toEqual(["1", "2", "3"]);
});

test("what is decided while the list is on its way does not come back with it", async () => {
  const { list, answers, didResolve, didRequest, waiting } = world("a");
  list.fire(undefined);
  didResolve.fire({ sessionId: "a", approvalId: "1", decision: "approve", cause: {} });
  answers[0]!([request("1"), request("2")]);
  await expect.poll(waiting).toEqual(["2"]);
  didRequest.fire({ sessionId: "a", approval: request("3") });
  didResolve.fire({ sessionId: "a", approvalId: "2", decision: "timedOut", cause: {} });
  didResolve.fire({ sessionId: "a", approvalId: "9", decision: "timedOut", cause: {} });
  expect(waiting()).toEqual(["3"]);
});

test("a session that is closed asks nothing any more; another server is asked anew", async () => {
  const { list, answers, didRequest, connect, open, waiting } = world("a", "b");
  list.fire(undefined);
  answers.forEach((answer) => answer([]));
  didRequest.fire({ sessionId: "a", approval: request("1") });
  didRequest.fire({ sessionId: "b", approval: request("2") });
  open.all.splice(0, 1);
  list.fire(undefined);
  expect(waiting()).toEqual(["2"]);
  connect.fire(undefined);
  expect(waiting()).toEqual([]);
  expect(answers).toHaveLength(3);
  answers[2]!([request("2")]);
  await expect.poll(waiting).toEqual(["2"]);
});

test.each([
  [{ description: "ls -l" }, "ls -l", true],
  [{ description: "list", detail: { command: "ls" } }, 'list – {"command":"ls"}', true],
  [{ detail: { command: "ls" } }, '{"command":"ls"}', true],
  [{}, "", true],
  [{ description: "ls\nrm -rf /" }, "ls rm -rf /", false],
  [{ description: "a\u202eb" }, "a�b", false],
  [{ description: "a\u200bb\u0007" }, "a�b�", false],
  [{ description: "a  b" }, "a b", false],
] as const)("%j is shown as %j, all of it: %j", (asked, gist, whole) => {
  expect(gistOfApproval(asked)).toBe(gist);
  expect(isShownWhole(asked)).toBe(whole);
});

test("what is longer than a question is cut, and not all of it", () => {
  const long = { description: "x".repeat(241) };
  expect(gistOfApproval(long)).toHaveLength(240);
  expect(isShownWhole(long)).toBe(false);
  expect(isShownWhole({ description: "x".repeat(240) })).toBe(true);
  expect(approvalText(request("1", { ...long, client: "agent", toolCallId: "c1", detail: { deep: { er: 1 } } }), "chat")).toContain(`${long.description}\n\n{\n  "deep": {\n    "er": 1`);
  expect(visible("  a\n b ")).toBe("a b");
});

test("the status bar says first what runs unasked, then what waits, then that nobody is there", () => {
  const approval = { yolo: false, afk: false, autoApproveActions: [], sealed: true };
  expect(approvalsShown(approval, 0)).toMatchObject({ text: "", alarm: "" });
  expect(approvalsShown({ ...approval, afk: true }, 0)).toMatchObject({ text: "$(sign-out) Away: requests are rejected", alarm: "warning" });
  expect(approvalsShown({ ...approval, afk: true }, 2)).toMatchObject({ text: "$(question) Waiting for your decision: 2", alarm: "warning" });
  expect(approvalsShown({ ...approval, yolo: true, afk: true }, 1)).toMatchObject({ text: "$(warning) YOLO: everything is approved, Waiting for your decision: 1", alarm: "error" });
});
