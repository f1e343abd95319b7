import { beforeEach, expect, test } from "vitest";
import { isNewEnough, probe, selectedPython } from "../../src/features/agents/python.js";
import { run } from "../../src/shared/programs.js";
import { extensions, Uri, user } from "../support/vscode.js";

beforeEach(() => user.reset());

const folder = Uri.file("/project") as never;

function install(id: string, api: unknown, isActive = false): void {
  extensions.known.set(id, { isActive, exports: isActive ? api : undefined, activate: () => Promise.resolve(api) });
}

const environments = { getEnvironment: () => Promise.resolve({ execInfo: { run: { executable: "/envs/python" } } }) };
const python = {
  ready: Promise.resolve(),
  environments: {
    getActiveEnvironmentPath: () => ({ path: "/chosen" }),
    resolveEnvironment: ({ path }: { path: string }) => Promise.resolve({ executable: { uri: Uri.file(`${path}/bin/python`) } }),
  },
};

test("neither extension is needed", async () => {
  expect(await selectedPython(folder)).toBeUndefined();
});

test("the Python Environments extension is asked first, then the Python extension", async () => {
  install("ms-python.python", python);
  expect(await selectedPython(folder)).toBe("/chosen/bin/python");
  install("ms-python.vscode-python-envs", environments, true);
  expect(await selectedPython(folder)).toBe("/envs/python");
});

test("an environment that has not been chosen is none", async () => {
  install("ms-python.vscode-python-envs", { getEnvironment: () => Promise.resolve(undefined) });
  install("ms-python.python", { environments: { ...python.environments, resolveEnvironment: () => Promise.resolve(undefined) } });
  expect(await selectedPython(folder)).toBeUndefined();
});

test("a Python says its version and whether it has Timeleap; anything else is none", async () => {
  const saying = (stdout: string, code: number | null = 0) => probe("python", () => Promise.resolve({ code, stdout, stderr: "" }));
  expect(await saying("3 13 1\n")).toEqual({ version: [3, 13], timeleap: true });
  expect(await saying("3 11 0\r\n")).toEqual({ version: [3, 11], timeleap: false });
  expect(await saying("Python was not found; run without arguments to install\n", 9009)).toBeUndefined();
  expect(await saying("hello\n")).toBeUndefined();
  expect(await probe("/no/such/python", run)).toBeUndefined();
});

test.each([
  [[3, 10], false],
  [[3, 11], true],
  [[3, 14], true],
  [[2, 7], false],
  [[4, 0], true],
] as const)("%s is new enough: %s", (version, enough) => {
  expect(isNewEnough(version)).toBe(enough);
});
