import { beforeEach, expect, test, vi } from "vitest";
import { transferCommands } from "../../src/features/transfer/transferCommands.js";
import { noteOf } from "../../src/shared/text/message.js";
import { log, user } from "../support/vscode.js";

beforeEach(() => user.reset());

/** A session on a server that says what it could not write. */
function bench(losses: { kind: string; message: string }[] = []) {
  const asked: [string, Record<string, unknown>][] = [];
  const request = (method: string, params: Record<string, unknown>): Promise<unknown> => {
    asked.push([method, params]);
    return Promise.resolve({ losses });
  };
  const session = { id: "chat", name: "chat", state: {}, request };
  const sessions = { shown: session, withOpen: (_: string, work: (one: unknown) => unknown) => work(session) };
  return { asked, commands: transferCommands({ sessions, log: log() } as never) };
}

test("the server is asked to write the file, and what was lost can be read", async () => {
  user.path = "/somewhere/chat.md";
  user.answer = ({ buttons }) => buttons.find((button) => button === "Left Out");
  const { asked, commands } = bench([{ kind: "media", message: "one picture" }]);
  user.pick = (items) => items.find((item) => (item as { format: string }).format === "markdown");
  await commands["exportSession"]!();
  expect(asked).toEqual([["session/export", { format: "markdown", path: "/somewhere/chat.md", overwrite: true }]]);
  await vi.waitFor(() => expect(user.said).toContainEqual(expect.objectContaining({ message: "Left Out", modal: true, detail: "one picture" })), { timeout: 20_000 });
  expect(user.said[0]!.message).toContain("Left Out: 1");
});

test("nothing is written when no form or no file is chosen", async () => {
  const { asked, commands } = bench();
  user.pick = () => undefined;
  await commands["exportSession"]!();
  await commands["importSession"]!();
  expect(asked).toEqual([]);
  expect(user.said).toEqual([]);
});

test("a note that has arrived is known by its words, of this session or another one", () => {
  const message = (content: string, role = "user") => ({ role, content });
  expect(noteOf(message("<system>A D-Mail has arrived: your later self.\n\nThe note:\n\nStop.\n\nThe note:\n\nreally</system>"))).toBe("Stop.\n\nThe note:\n\nreally");
  expect(noteOf(message("<system>A note has arrived from another session, x: news.\n\nThe note:\n\nDone.</system>"))).toBe("Done.");
  expect(noteOf(message("<system>CHECKPOINT 3</system>"))).toBeUndefined();
  expect(noteOf(message("A D-Mail has arrived\n\nThe note:\n\nx"))).toBeUndefined();
  expect(noteOf(message("<system>A D-Mail has arrived.\n\nThe note:\n\nx</system>", "assistant"))).toBeUndefined();
});
