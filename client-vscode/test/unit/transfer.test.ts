import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { transferCommands } from "../../src/features/transfer/transferCommands.js";
import { noteOf } from "../../src/shared/text/message.js";
import { log, user } from "../support/vscode.js";

beforeEach(() => user.reset());

/** A session of that many messages on a server that does or does not write files itself. */
function bench(count: number, serves: boolean, losses: { kind: string; message: string }[] = []) {
  const asked: [string, Record<string, unknown>][] = [];
  const shown: string[] = [];
  const request = (method: string, params: { from?: number; limit?: number }): Promise<unknown> => {
    asked.push([method, params]);
    const { from = 0, limit = 0 } = params;
    const messages = Array.from({ length: Math.min(limit, count - from) }, (_, index) => ({ index: from + index, message: { role: "user", content: `m${from + index}` } }));
    return Promise.resolve({ messages, losses });
  };
  const state = { context: { systemPrompt: "Be brief.", messageCount: count } };
  const session = { id: "chat", name: "chat", state, request };
  const sessions = { shown: session, withOpen: (_: string, work: (one: unknown) => unknown) => work(session) };
  const documents = { showText: (_: string, text: string) => Promise.resolve(void shown.push(text)) };
  return { asked, shown, commands: transferCommands({ sessions, documents, sidecar: { serves: () => serves }, log: log() } as never) };
}

test("a server that writes no files leaves the transcript to us: title, prompt and every message, page by page", async () => {
  const folder = mkdtempSync(join(tmpdir(), "timeleap-export-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  user.path = join(folder, "chat.md");
  const { asked, commands } = bench(1_400, false);
  await commands["exportMarkdown"]!();
  const text = readFileSync(user.path, "utf8");
  expect(text.startsWith("# chat\n\n## System prompt\n\nBe brief.\n\n## 0 · User\n\nm0\n")).toBe(true);
  expect([...text.matchAll(/^## (\d+) · /gm)].map(([, index]) => Number(index))).toEqual(Array.from({ length: 1_400 }, (_, index) => index));
  expect(asked).toHaveLength(3);
});

test("a server that writes files is asked to, and what was lost can be read", async () => {
  user.path = "/somewhere/chat.md";
  user.answer = ({ buttons }) => buttons.find((button) => button === "What Was Left Out");
  const { asked, shown, commands } = bench(3, true, [{ kind: "media", message: "one picture" }]);
  await commands["exportMarkdown"]!();
  expect(asked).toEqual([["session/export", { format: "markdown", path: "/somewhere/chat.md", overwrite: true }]]);
  await vi.waitFor(() => expect(shown).toEqual(["# What Was Left Out\n\n- one picture\n"]), { timeout: 20_000 });
  expect(user.said[0]!.message).toContain("Not all of it could be carried over (1)");
});

test("nothing is written when no form or no file is chosen", async () => {
  const { asked, commands } = bench(3, true);
  user.pick = () => undefined;
  await commands["exportSession"]!();
  await commands["exportMarkdown"]!();
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
