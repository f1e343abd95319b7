import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { ManagedEnvironment } from "../../src/server/managed.js";
import { run } from "../../src/server/programs.js";
import { COMMAND } from "../support/extension.js";
import { ROOT } from "../support/strings.js";
import { log } from "../support/vscode.js";

test("the wheel that comes with the extension installs into an environment of its own", { timeout: 300_000 }, async () => {
  const storage = mkdtempSync(join(tmpdir(), "timeleap-environment-"));
  onTestFinished(() => rmSync(storage, { recursive: true }));
  // What the server needs would be downloaded; that pip can do that is not what is tested.
  vi.stubEnv("PIP_NO_DEPS", "1");
  const managed = new ManagedEnvironment({ storage, wheels: join(ROOT, "dist", "wheels"), version: "0", run, log: log() });
  await managed.install(join(dirname(COMMAND[0]!), process.platform === "win32" ? "python.exe" : "python"), () => undefined);
  const { code, stdout } = await run(managed.python!, ["-P", "-c", "import timeleap.version as v; print(v.__file__)"], 60_000);
  expect(code).toBe(0);
  expect(stdout).toContain(storage);
});
