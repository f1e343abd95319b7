import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { launchModule } from "../../src/features/agents/locate.js";
import { ManagedEnvironment } from "../../src/features/agents/managed.js";
import { run } from "../../src/shared/programs.js";
import { COMMAND } from "../support/extension.js";
import { ROOT } from "../support/strings.js";
import { log } from "../support/vscode.js";

test("the wheel that comes with the extension installs into an environment of its own", { timeout: 300_000 }, async () => {
  const storage = mkdtempSync(join(tmpdir(), "timeleap-environment-"));
  onTestFinished(() => rmSync(storage, { recursive: true }));
  // What the server needs would be downloaded; that pip can do that is not what is tested.
  vi.stubEnv("PIP_NO_DEPS", "1");
  const managed = new ManagedEnvironment({ storage, wheels: join(ROOT, "dist", "wheels"), version: "0", run, log: log() });
  await managed.install(join(dirname(COMMAND[0]!), process.platform === "win32" ? "python.exe" : "python"));
  // Those of the surroundings are for another Python: a broken standard library, and a stranger's module.
  const strange = mkdtempSync(join(tmpdir(), "timeleap-strange-"));
  onTestFinished(() => rmSync(strange, { recursive: true }));
  writeFileSync(join(strange, "json.py"), "raise SystemExit(7)");
  writeFileSync(join(strange, "timeleap.py"), "raise SystemExit(7)");
  vi.stubEnv("PYTHONPATH", strange);
  vi.stubEnv("PYTHONHOME", strange);
  onTestFinished(() => void vi.unstubAllEnvs());
  const isolation = launchModule(managed.python!, "managed").args.slice(0, 3);
  const { code, stdout } = await run(managed.python!, [...isolation, "-c", "import json, timeleap.version as v; print(v.__file__)"], 60_000);
  expect(code).toBe(0);
  expect(stdout).toContain(storage);
});
