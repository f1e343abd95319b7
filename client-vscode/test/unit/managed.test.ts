import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { ManagedEnvironment, type ManagedOptions } from "../../src/features/agents/managed.js";
import type { Run } from "../../src/shared/programs.js";
import { log } from "../support/vscode.js";

let storage: string;
let wheels: string;
let asked: string[][];

beforeEach(() => {
  storage = mkdtempSync(join(tmpdir(), "timeleap-managed-"));
  wheels = join(storage, "wheels");
  mkdirSync(wheels);
  writeFileSync(join(wheels, "timeleap-1.2.3-py3-none-any.whl"), "");
  asked = [];
});

afterEach(() => rmSync(storage, { recursive: true }));

/** Makes the folder when asked for an environment; pip fails where told. */
function running(fails = false): Run {
  return (command, args) => {
    asked.push([command, ...args]);
    if (args.includes("venv")) {
      mkdirSync(args.at(-1)!, { recursive: true });
    }
    return Promise.resolve(fails && args.includes("pip") ? { code: 1, stdout: "", stderr: "trying\nERROR: no network\n" } : { code: 0, stdout: "", stderr: "" });
  };
}

function environment(options: Partial<ManagedOptions> = {}): ManagedEnvironment {
  return new ManagedEnvironment({ storage, wheels, version: "1.2.3", run: running(), log: log(), platform: "linux", ...options });
}

const folder = (version = "1.2.3"): string => join(storage, `server-${version}`);

test("it is not there before it is installed, and afterwards it is", async () => {
  const managed = environment();
  expect(managed.python).toBeUndefined();
  await managed.install("/usr/bin/python3");
  expect(managed.python).toBe(join(folder(), "bin", "python"));
  expect(asked[0]).toEqual(["/usr/bin/python3", "-I", "-m", "venv", folder()]);
  expect(asked[1]).toEqual([managed.python, "-I", "-m", "pip", "install", "--disable-pip-version-check", "--no-input", join(wheels, "timeleap-1.2.3-py3-none-any.whl")]);
  expect(asked[2]?.at(-1)).toBe(`${join(wheels, "timeleap-1.2.3-py3-none-any.whl")}[regex]`);
});

test("an installation that was interrupted does not count", () => {
  mkdirSync(join(folder(), "bin"), { recursive: true });
  expect(environment().python).toBeUndefined();
});

test("an installation that fails says what pip said and leaves nothing", async () => {
  const managed = environment({ run: running(true) });
  await expect(managed.install("python3")).rejects.toMatchObject({ kind: "noServer", message: expect.stringContaining("no network") as string });
  expect(managed.python).toBeUndefined();
  expect(existsSync(folder())).toBe(false);
});

test("a repeated installation that fails leaves the one that works", async () => {
  await environment().install("python3");
  const managed = environment({ run: running(true) });
  await expect(managed.install("python3")).rejects.toThrow();
  expect(managed.python).toBeDefined();
  expect(readdirSync(storage).sort()).toEqual(["server-1.2.3", "wheels"]);
});

test("another version of the extension gets an environment of its own", async () => {
  await environment().install("python3");
  expect(environment({ version: "1.3.0" }).python).toBeUndefined();
});

test("a build without a wheel says how to get the server", async () => {
  await expect(environment({ wheels: join(storage, "none") }).install("python3")).rejects.toThrow("pip install timeleap");
  expect(asked).toEqual([]);
});

test("on Windows the interpreter is elsewhere", async () => {
  const managed = environment({ platform: "win32" });
  await managed.install("py");
  expect(managed.python).toBe(join(folder(), "Scripts", "python.exe"));
});
