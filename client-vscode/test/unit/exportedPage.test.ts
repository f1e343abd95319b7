import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "../..");

test("the page that a session is exported to is the page in the editor as it is now, with its words and the licences of what is in it", () => {
  const { status, stderr } = spawnSync(process.execPath, ["exported.mjs", "--check"], { cwd: ROOT, encoding: "utf8" });
  expect([status, stderr]).toEqual([0, ""]);
});
