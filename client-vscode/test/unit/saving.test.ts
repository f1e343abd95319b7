import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Memento } from "vscode";
import type { FilesState } from "timeleap-client";
import { Sessions } from "../../src/core/sessions/sessions.js";
import { isInRepository, Saving } from "../../src/features/files/saving.js";
import { EventEmitter, log, Uri, user, workspace, type Said } from "../support/vscode.js";

let folder: string;
const ended: (() => void)[] = [];

beforeEach(() => {
  user.reset();
  folder = mkdtempSync(join(tmpdir(), "timeleap-saving-"));
  workspace.workspaceFolders = [{ uri: Uri.file(folder), name: "shop", index: 0 }];
});

afterEach(() => {
  ended.splice(0).forEach((end) => end());
  rmSync(folder, { recursive: true, force: true });
});

interface Opened {
  readonly sessionId?: string;
  readonly files?: { readonly mode: string };
}

/** A window of an extension whose server has every session that is asked for, with these files. */
function windowOf(memory = new Map<string, unknown>(), found: Partial<FilesState> = {}) {
  const opened: Opened[] = [];
  const wire = {
    state: { kind: "ready" },
    onNotification: () => undefined,
    onDidConnect: new EventEmitter<undefined>().event,
    request: (method: string, params: Opened & { readonly workspace?: string }) => {
      if (method !== "session/open") {
        return new Promise(() => undefined);
      }
      opened.push(params);
      const files = { mode: params.files?.mode ?? "off", roots: [], snapshots: 0, bytes: 0, ...found };
      return Promise.resolve({ sessionId: params.sessionId ?? String(opened.length), access: "owner", context: {}, files, workspace: pathToFileURL(folder).href });
    },
  };
  const memento = { get: (key: string) => memory.get(key), update: (key: string, value: unknown) => Promise.resolve(void memory.set(key, value)) } as unknown as Memento;
  const sessions = new Sessions(wire as never, memento);
  const saving = new Saving({ sessions, sidecar: wire, context: { workspaceState: memento }, log: log(), views: {} } as never);
  ended.push(() => saving.dispose());
  const modes = () => opened.map(({ files }) => files?.mode);
  return { sessions, memory, opened, modes };
}

const there = (sessionId = "s") => ({ sessionId, create: false });
const settled = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0));

function repository(): void {
  mkdirSync(join(folder, ".git"));
}

const asked = (): readonly Said[] => user.said.filter(({ buttons }) => buttons.includes("Don't Save"));

function press(...buttons: string[]): void {
  user.answer = (said) => said.buttons.find((button) => buttons.includes(button));
}

test("in a git folder one sentence is asked, once; yes saves the files of the session that is there and of those to come", async () => {
  repository();
  press("Save Files");
  const { sessions, modes, memory } = windowOf();
  await sessions.open(there());
  await vi.waitFor(() => expect(modes()).toEqual([undefined, "checkpoint"]));
  expect(asked()).toMatchObject([{ kind: "information", modal: false, message: expect.stringMatching(/“shop”.*Restore brings them back/) as string }]);
  expect(user.said.at(-1)).toMatchObject({ message: expect.stringContaining("are saved from the next checkpoint on") as string, buttons: ["Undo"] });
  await sessions.open({ workspace: pathToFileURL(folder).href });
  expect(modes()).toEqual([undefined, "checkpoint", "checkpoint"]);
  const later = windowOf(memory); // another window of the same workspace
  await later.sessions.open(there("another"));
  await vi.waitFor(() => expect(later.modes()).toEqual([undefined, "checkpoint"]));
  expect(asked()).toHaveLength(1);
});

test("no is remembered as well, and nothing is saved", async () => {
  repository();
  press("Don't Save");
  const { sessions, modes, memory } = windowOf();
  await sessions.open(there());
  await sessions.open({ workspace: pathToFileURL(folder).href });
  const later = windowOf(memory);
  await later.sessions.open(there());
  await settled();
  expect([...modes(), ...later.modes()]).toEqual([undefined, undefined, undefined]);
  expect(asked()).toHaveLength(1);
});

test("one press takes yes back: the session's files and those of later ones are not saved, and nobody is asked again", async () => {
  repository();
  press("Save Files", "Undo");
  const { sessions, modes } = windowOf();
  await sessions.open(there());
  await vi.waitFor(() => expect(modes().at(-1)).toBe("off"));
  await sessions.open({ workspace: pathToFileURL(folder).href });
  await settled();
  expect(modes().at(-1)).toBeUndefined();
  expect(asked()).toHaveLength(1);
});

test("a question that was put away is asked in the next window, not in this one again", async () => {
  repository();
  const { sessions, memory } = windowOf();
  await sessions.open(there());
  await sessions.open(there("another"));
  await settled();
  expect(asked()).toHaveLength(1);
  await windowOf(memory).sessions.open(there());
  await settled();
  expect(asked()).toHaveLength(2);
});

test("nothing is asked where there is no repository", async () => {
  await windowOf().sessions.open(there());
  await settled();
  expect(asked()).toEqual([]);
});

test.each<Partial<FilesState>>([{ mode: "checkpoint" }, { snapshots: 3 }])("nothing is asked of a session that saves files, or saved them once and was told to stop: %o", async (found) => {
  repository();
  await windowOf(new Map(), found).sessions.open(there());
  await settled();
  expect(asked()).toEqual([]);
});

test("nothing is asked where the setting says it, or about a folder that is not open here", async () => {
  repository();
  user.settings.set("timeleap.files.mode", "off");
  await windowOf().sessions.open(there());
  user.settings.delete("timeleap.files.mode");
  workspace.workspaceFolders = [{ uri: Uri.file("/elsewhere"), name: "elsewhere", index: 0 }];
  await windowOf().sessions.open(there());
  await settled();
  expect(asked()).toEqual([]);
});

test("a folder within a repository is in it; one beside it is not", () => {
  mkdirSync(join(folder, "shop", "src"), { recursive: true });
  mkdirSync(join(folder, "shop", ".git"));
  expect(isInRepository(join(folder, "shop", "src"))).toBe(true);
  expect(isInRepository(folder)).toBe(false);
});

test("the setting is for sessions that are made in a folder, and leaves those that exist alone", async () => {
  user.settings.set("timeleap.files.mode", "checkpoint");
  const { sessions, modes } = windowOf();
  const uri = pathToFileURL(folder).href;
  await sessions.attach({ workspace: uri });
  await sessions.attach({ workspace: uri, sessionId: "there already" });
  await sessions.attach({ path: "/folder" });
  await sessions.attach({});
  await sessions.attach({ workspace: uri, files: { mode: "turn" } });
  expect(modes()).toEqual(["checkpoint", undefined, undefined, undefined, "turn"]);
});
