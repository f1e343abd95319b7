import { expect, test, vi } from "vitest";
import { Rewriting, type WillRewrite } from "../../src/features/api/rewriting.js";

function listening(rewriting: Rewriting, listener: (will: WillRewrite) => void = () => undefined): WillRewrite[] {
  const heard: WillRewrite[] = [];
  rewriting.onWillRewrite((will) => {
    heard.push(will);
    listener(will);
  });
  return heard;
}

test("a listener hears of what puts another log in place, and of nothing else", () => {
  const rewriting = new Rewriting();
  const heard = listening(rewriting);
  void rewriting.announce("context/revertTo", { checkpointUid: "c0-1", expectedHead: "h" });
  void rewriting.announce("context/revertTo", { messageIndex: 0 });
  void rewriting.announce("context/restoreTimeline", { timelineId: "context_1", restore: "both" });
  void rewriting.announce("context/undo", { steps: 2 });
  void rewriting.announce("context/undo", { steps: 2, dryRun: true });
  void rewriting.announce("context/revertTo", { checkpointUid: "c0-1", restore: "files" });
  void rewriting.announce("context/appendMessage", { messages: [] });
  void rewriting.announce("toString", {});
  expect(heard.map(({ waitUntil, ...rest }) => (expect(waitUntil).toBeTypeOf("function"), rest))).toEqual([
    { kind: "revert", checkpointUid: "c0-1" },
    { kind: "revert", messageIndex: 0 },
    { kind: "restore", timelineId: "context_1" },
    { kind: "undo", steps: 2 },
  ]);
});

test("where nobody waits, the request keeps its place", () => {
  const rewriting = new Rewriting();
  listening(rewriting);
  expect(rewriting.announce("context/undo", {})).toBeUndefined();
});

test("the change waits for all listeners, and one that fails holds nothing up", async () => {
  const rewriting = new Rewriting();
  let stop = (): void => undefined;
  listening(rewriting, ({ waitUntil }) => waitUntil(new Promise<void>((resolve) => (stop = resolve))));
  listening(rewriting, ({ waitUntil }) => waitUntil(Promise.reject(new Error("no turn to stop"))));
  const went = vi.fn();
  const announced = rewriting.announce("context/undo", {})!.then(went);
  await new Promise(setImmediate);
  expect(went).not.toHaveBeenCalled();
  stop();
  await announced;
  expect(went).toHaveBeenCalled();
});

test("a listener that hangs is not waited for beyond the limit", async () => {
  const rewriting = new Rewriting(1);
  listening(rewriting, ({ waitUntil }) => waitUntil(new Promise(() => undefined)));
  await rewriting.announce("context/clear", {});
});

test("waitUntil is refused once the listener has been called", () => {
  const rewriting = new Rewriting();
  const heard = listening(rewriting);
  void rewriting.announce("context/undo", {});
  const [will] = heard;
  expect(() => will!.waitUntil(Promise.resolve())).toThrow("only while the listener is being called");
});
