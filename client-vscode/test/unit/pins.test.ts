import { beforeEach, expect, test, vi } from "vitest";
import { pinCommands } from "../../src/features/pins/pinCommands.js";
import { uriOf } from "../../src/shared/reference.js";
import { log, Uri, user, window, workspace } from "../support/vscode.js";

beforeEach(() => user.reset());

/** Pins of one session, kept as a server would. */
function bench(...pins: string[]) {
  const server = { pins };
  const request = (method: string, params: { pins?: string[] }): Promise<unknown> => {
    server.pins = method === "context/setPins" ? (params.pins ?? []) : server.pins;
    return Promise.resolve({ pins: [...server.pins] });
  };
  const session = { id: "chat", name: "The chat", writable: true, request };
  const opened: string[] = [];
  const sessions = {
    shown: session,
    withOpen: (id: string, work: (one: unknown) => unknown) => {
      opened.push(id);
      return work(session);
    },
  };
  return { server, opened, commands: pinCommands({ sessions, log: log() } as never) };
}

/** What is selected in the document of a message. */
function select(text: string, session = "elsewhere"): void {
  const uri = uriOf({ session, selected: { kind: "messages", indexes: [1] }, format: "md", title: "x" });
  window.activeTextEditor = { document: { uri: Uri.from(uri), getText: () => text }, selection: {} };
}

test("what is selected in a document is pinned in the session it is of", async () => {
  const { server, opened, commands } = bench("before");
  select("  keep this\n");
  await commands["pinText"]!();
  expect(server.pins).toEqual(["before", "keep this"]);
  expect(opened).toEqual(["elsewhere"]);
  expect(user.said).toMatchObject([{ kind: "information", buttons: ["Manage Pins…"] }]);
});

test("without a selection the text is typed in, for the shown session; Escape pins nothing", async () => {
  const { server, commands } = bench();
  await commands["pinText"]!();
  user.input = () => "   ";
  await commands["pinText"]!();
  expect(server.pins).toEqual([]);
  user.input = () => "no new dependency";
  select("  ");
  await commands["pinText"]!();
  expect(server.pins).toEqual(["no new dependency"]);
});

test("what cannot be pinned is refused in words, and nothing is changed", async () => {
  const full = Array.from({ length: 100 }, (_, index) => `pin ${index}`);
  const { server, commands } = bench(...full);
  select("pin 7");
  await expect(commands["pinText"]!()).rejects.toThrow("pinned already");
  select("one more");
  await expect(commands["pinText"]!()).rejects.toThrow("at most 100");
  select("x".repeat(2_001));
  await expect(commands["pinText"]!()).rejects.toThrow("at most 2,000 characters");
  expect(server.pins).toEqual(full);
});

test("in Restricted Mode nothing is pinned", async () => {
  const { server, commands } = bench();
  workspace.isTrusted = false;
  select("keep");
  await expect(commands["pinText"]!()).rejects.toThrow("Restricted Mode");
  expect(server.pins).toEqual([]);
});

test("a pin that is chosen from the list goes, and Undo puts it back where it was", async () => {
  const { server, commands } = bench("a", "b", "c");
  let undo: (button: string) => void = () => undefined;
  const { showInformationMessage } = window;
  window.showInformationMessage = () => new Promise((resolve) => (undo = resolve));
  user.pick = (items) => items.find((item) => (item as { label: string }).label === "$(pinned) b");
  await commands["managePins"]!();
  expect(server.pins).toEqual(["a", "c"]);
  undo("Undo");
  await vi.waitFor(() => expect(server.pins).toEqual(["a", "b", "c"]), { timeout: 20_000 });
  window.showInformationMessage = showInformationMessage;
});

test("the list offers to pin something else", async () => {
  const { server, commands } = bench();
  user.input = () => "new";
  user.pick = (items) => items[0];
  await commands["managePins"]!();
  expect(server.pins).toEqual(["new"]);
});
