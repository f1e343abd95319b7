import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "../..");
const LIBRARY = join(ROOT, "node_modules/markdown-it");
const ASSETS = join(ROOT, "../server/timeleap/features/transfer/assets");

test("the page that a session is exported to has the renderer of the page in the editor, as it is published", () => {
  const published = readFileSync(join(LIBRARY, "dist/markdown-it.min.js"), "utf8");
  const withoutMap = `${published.slice(0, published.lastIndexOf("\n//# sourceMappingURL"))}\n`;
  expect(readFileSync(join(ASSETS, "markdown-it.min.js"), "utf8")).toBe(withoutMap);
  expect(readFileSync(join(ASSETS, "markdown-it.LICENSE"), "utf8")).toBe(readFileSync(join(LIBRARY, "LICENSE"), "utf8"));
});

test("the page that a session is exported to has the cards of the page in the editor, as they are now, and the licence of what is in them", () => {
  const { status, stderr } = spawnSync(process.execPath, ["exported.mjs", "--check"], { cwd: ROOT, encoding: "utf8" });
  expect([status, stderr]).toEqual([0, ""]);
});
