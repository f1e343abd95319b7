import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { locateServer, usablePython, type Environment } from "../../src/features/agents/locate.js";
import { findOnPath, run, type Run } from "../../src/shared/programs.js";
import type { Settings } from "../../src/shared/settings.js";

const SETTINGS: Settings = {
  command: [],
  interpreter: "",
  home: "",
  store: "",
  durability: "disk",
  requestTimeout: 60_000,
  maxContextSize: null,
  openNewest: true,
  order: "newestFirst",
  useLanguageModel: true,
  maskSecrets: true,
  restoreAsks: false, filesMode: "off",
};

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "timeleap-locate-"));
});

afterEach(() => {
  vi.useRealTimers();
  rmSync(folder, { recursive: true });
});

/** Pythons by path: the version, and whether they have Timeleap. */
const answering =
  (pythons: Record<string, string>): Run =>
  (command) =>
    Promise.resolve(command in pythons ? { code: 0, stdout: `${pythons[command]!}\n`, stderr: "" } : { code: null, stdout: "", stderr: "" });

function around(changes: Partial<Environment> = {}): Environment {
  return {
    run: answering({ "/env/python": "3 12 1", "/bare/python": "3 12 0", "/old/python": "3 9 0", "/old/with": "3 9 1" }),
    selectedPython: () => Promise.resolve(undefined),
    managedPython: () => undefined,
    pythonsOnPath: () => [],
    path: "",
    trusted: true,
    ...changes,
  };
}

function program(name: string): string {
  const file = join(folder, name);
  writeFileSync(file, "#!/bin/sh\n");
  chmodSync(file, 0o755);
  return file;
}

const MODULE = ["-P", "-m", "timeleap", "serve"];
const everywhere = (): Partial<Environment> => ({
  selectedPython: () => Promise.resolve("/env/python"),
  path: folder,
  managedPython: () => "/managed/python",
});

test("the command of the settings is taken as it is, before everything else", async () => {
  program("timeleap");
  const settings = { ...SETTINGS, command: ["/my/server", "serve", "--home", "x"], interpreter: "/env/python" };
  expect(await locateServer(settings, around(everywhere()))).toEqual({ command: "/my/server", args: ["serve", "--home", "x"], source: "setting" });
});

test("then the interpreter of the settings", async () => {
  const run = vi.fn(around().run);
  const launch = await locateServer({ ...SETTINGS, interpreter: "/env/python" }, around({ run }));
  expect(launch).toMatchObject({ command: "/env/python", args: MODULE, source: "setting" });
  expect(run).not.toHaveBeenCalled(); // it is started at once
  expect(await launch.blame?.()).toBe(undefined);
});

test.each([
  ["/missing/python", "wrongInterpreter"],
  ["/old/with", "oldPython"],
  ["/bare/python", "noServer"],
])("an interpreter of the settings that cannot serve is not passed over, but blamed: %s", async (interpreter, kind) => {
  const launch = await locateServer({ ...SETTINGS, interpreter }, around(everywhere()));
  expect(launch.command).toBe(interpreter);
  expect(await launch.blame?.()).toMatchObject({ name: "ServerFailure", kind });
});

test("then the Python selected in the editor, if it has Timeleap", async () => {
  program("timeleap");
  expect(await locateServer(SETTINGS, around(everywhere()))).toEqual({ command: "/env/python", args: MODULE, source: "environment" });
});

test.each(["/bare/python", "/old/with", "/missing/python"])("then PATH: %s is passed over", async (selected) => {
  const file = program("timeleap");
  const found = await locateServer(SETTINGS, around({ ...everywhere(), selectedPython: () => Promise.resolve(selected) }));
  expect(found).toEqual({ command: file, args: ["serve"], source: "path" });
});

test("then the private environment", async () => {
  const found = await locateServer(SETTINGS, around({ managedPython: () => "/managed/python" }));
  expect(found).toEqual({ command: "/managed/python", args: ["-I", "-X", "utf8", "-m", "timeleap", "serve"], source: "managed" });
});

test("in Restricted Mode the Python of the workspace is not even asked for", async () => {
  const selectedPython = vi.fn(() => Promise.resolve("/env/python"));
  const found = await locateServer(SETTINGS, around({ selectedPython, trusted: false, managedPython: () => "/managed/python" }));
  expect(found.source).toBe("managed");
  expect(selectedPython).not.toHaveBeenCalled();
});

test("a Python extension that fails or never answers stops nothing", async () => {
  const failing = await locateServer(SETTINGS, around({ ...everywhere(), path: "", selectedPython: () => Promise.reject(new Error("broken")) }));
  expect(failing.source).toBe("managed");
  vi.useFakeTimers();
  const waiting = locateServer(SETTINGS, around({ ...everywhere(), path: "", selectedPython: () => new Promise(() => undefined) }));
  await vi.advanceTimersByTimeAsync(6_000);
  expect((await waiting).source).toBe("managed");
});

test("nothing found: the reason is the one the user can do something about", async () => {
  await expect(locateServer(SETTINGS, around())).rejects.toMatchObject({ kind: "noPython" });
  await expect(locateServer(SETTINGS, around({ pythonsOnPath: () => ["/old/python"] }))).rejects.toMatchObject({
    kind: "oldPython",
    message: "Python 3.9 is too old; Timeleap needs 3.11 or newer.",
  });
  await expect(locateServer(SETTINGS, around({ pythonsOnPath: () => ["/old/python", "/bare/python"] }))).rejects.toMatchObject({ kind: "noServer" });
});

test("a private environment is made with the first Python that is new enough", async () => {
  const found = usablePython(around({ selectedPython: () => Promise.resolve("/old/python"), pythonsOnPath: () => ["/missing", "/bare/python"] }));
  expect(await found).toBe("/bare/python");
  expect(await usablePython(around({ pythonsOnPath: () => ["/bare/python"] }), "/env/python")).toBe("/env/python");
});

test("relative entries of PATH are passed over: they would run what a folder brings", () => {
  mkdirSync(join(folder, "bin"));
  program(join("bin", "timeleap"));
  const before = process.cwd();
  process.chdir(folder);
  try {
    expect(findOnPath(["timeleap"], "bin:.")).toBeUndefined();
    expect(findOnPath(["timeleap"], join(folder, "bin"))).toBe(join(folder, "bin", "timeleap"));
  } finally {
    process.chdir(before);
  }
});

test("a folder, or a file that cannot be run, is no program", () => {
  mkdirSync(join(folder, "timeleap"));
  writeFileSync(join(folder, "python3"), "");
  expect(findOnPath(["timeleap", "python3"], folder)).toBeUndefined();
});

test("running a program that is missing, fails or hangs is an answer, not an exception", async () => {
  expect(await run(join(folder, "missing"), [], 1_000)).toMatchObject({ code: null });
  expect(await run(process.execPath, ["-e", "console.error('no'); process.exit(3)"], 10_000)).toMatchObject({ code: 3, stderr: "no\n" });
  expect(await run(process.execPath, ["-e", "setInterval(() => {}, 1000)"], 200)).toMatchObject({ code: null });
});

test.each([
  "postgresql://agent:hunter2@db/timeleap",
  "POSTGRES://agent:hunter2@db1,db2/timeleap",
  "postgresql://agent:hunt/er2@db/timeleap",
  "postgresql://agent:hunt?er2@db/timeleap",
  "postgresql://db/timeleap?user=agent&password=hunter2",
  "postgresql://db/timeleap?p%61ssword=hunter2",
  "postgresql://db/timeleap?sslpassword=hunter2",
  "host=db password = hunter2",
])("a password in the setting is refused in words that do not have it: %s", async (store) => {
  const program = vi.fn(answering({}));
  const refused = await locateServer({ ...SETTINGS, store }, around({ run: program })).catch((error: unknown) => error);
  expect(refused).toMatchObject({ name: "ServerFailure", kind: "startFailed", message: expect.stringContaining("~/.pgpass") as unknown });
  expect(program).not.toHaveBeenCalled();
  expect(String(refused)).not.toMatch(/hunt/);
});

test.each(["postgresql://agent@db/timeleap", "postgresql:///timeleap?host=/run/postgresql&passfile=/secret/pgpass", "/srv/a:b@c", "file:///srv/x"])(
  "a store without a password is no reason not to look for a server: %s",
  async (store) => {
    expect(await locateServer({ ...SETTINGS, store, command: ["timeleap"] }, around())).toMatchObject({ command: "timeleap" });
  },
);
