import { beforeEach, expect, test, vi } from "vitest";
import { pinCommands } from "../../src/features/pins/pinCommands.js";
import { log, user, window, workspace } from "../support/vscode.js";

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

test("what is given, as by the page, is pinned in the session it is of", async () => {
  const { server, opened, commands } = bench("before");
  await commands["managePins"]!({ session: "elsewhere", text: "  keep this\n" });
  expect(server.pins).toEqual(["before", "keep this"]);
  expect(opened).toEqual(["elsewhere"]);
  expect(user.said).toMatchObject([{ kind: "information", buttons: ["Pins…"] }]);
});

test("a text is typed in for the shown session, from the list; Escape pins nothing", async () => {
  const { server, commands } = bench();
  await commands["managePins"]!();
  user.input = () => "   ";
  await commands["managePins"]!();
  expect(server.pins).toEqual([]);
  user.input = () => "no new dependency";
  await commands["managePins"]!();
  expect(server.pins).toEqual(["no new dependency"]);
});

test("a text that is pinned already is pinned once", async () => {
  const { server, commands } = bench("a", "b");
  await commands["managePins"]!({ session: "chat", text: "a" });
  expect(server.pins).toEqual(["a", "b"]);
});

test("in Restricted Mode nothing is pinned", async () => {
  const { server, commands } = bench();
  workspace.isTrusted = false;
  await expect(commands["managePins"]!({ session: "chat", text: "keep" })).rejects.toThrow("Restricted Mode");
  expect(server.pins).toEqual([]);
});

test("a pin that is chosen from the list goes, and Undo puts it back where it was", async () => {
  const { server, commands } = bench("a", "b", "c");
  let undo: (button: string) => void = () => undefined;
  const { showInformationMessage } = window;
  window.showInformationMessage = () => new Promise((resolve) => (undo = resolve));
  user.pick = (items) => items.find((item) => (item as { label: string }).label === "$(trash) b");
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
