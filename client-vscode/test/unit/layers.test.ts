import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ROOT, stringsOfSources } from "../support/strings.js";

/** Lines of the core, which can be read alone. Goes down only. */
const CEILING = 2500;
/** Lines below the ceiling from which on it has to be lowered. */
const SLACK = 60;

/** What stands in a folder, file after file. */
function sources(folder: string): string {
  const files = readdirSync(join(ROOT, "src", folder), { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".ts"));
  return files.map((file) => readFileSync(join(ROOT, "src", folder, file), "utf8")).join("");
}

test("the core stays under its ceiling, and the ceiling follows it down", () => {
  const core = sources("core").split("\n").length - 1;
  expect(core).toBeLessThanOrEqual(CEILING);
  expect(core, "lower the ceiling").toBeGreaterThan(CEILING - SLACK);
});

/** What a person has to find his way among. These go down only. */
const COMMANDS = 29;
const STRINGS = 350;

test("commands and strings stay under their ceilings", () => {
  const { contributes } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { contributes: { commands: unknown[] } };
  const ofManifest = Object.keys(JSON.parse(readFileSync(join(ROOT, "package.nls.json"), "utf8")) as object);
  expect(contributes.commands.length).toBeLessThanOrEqual(COMMANDS);
  expect(stringsOfSources().texts.size + ofManifest.length).toBeLessThanOrEqual(STRINGS);
});

test("each part of the manifest has the commands that are handled beside it", () => {
  const parts = ["core", ...readdirSync(join(ROOT, "src", "features")).map((name) => `features/${name}`)].filter((folder) => existsSync(join(ROOT, "src", folder, "manifest.json")));
  for (const folder of parts) {
    const { commands = [] } = JSON.parse(readFileSync(join(ROOT, "src", folder, "manifest.json"), "utf8")) as { commands?: { command: string }[] };
    const names = commands.map(({ command }) => command.replace("timeleap.", ""));
    expect(names.filter((name) => !new RegExp(`\\b${name}\\b(?::| = |\\()`, "u").test(sources(folder))), folder).toEqual([]);
  }
});

test("each feature has one way in", () => {
  const features = readdirSync(join(ROOT, "src", "features"));
  const registered = readFileSync(join(ROOT, "src", "extension.ts"), "utf8");
  expect(features.filter((name) => !registered.includes(`./features/${name}/${name === "api" ? "api" : "index"}.js`))).toEqual([]);
  const elsewhere = [...registered.matchAll(/"\.\/features\/\w+\/(\w+)\.js"/g)].map(([, file]) => file!);
  expect(elsewhere.filter((file) => file !== "index" && !file.startsWith("api"))).toEqual([]);
});

test("the table of commands that went names only what is there now", () => {
  const rows = [...readFileSync(join(ROOT, "CHANGELOG.md"), "utf8").matchAll(/^ {2}\| (?!command before|---)(.+) \| (.+) \|$/gmu)];
  expect(rows.flatMap(([, before]) => before!.split(/, (?=[A-Z])/u))).toHaveLength(62);
  const texts = new Set([...stringsOfSources().texts, ...Object.values(JSON.parse(readFileSync(join(ROOT, "package.nls.json"), "utf8")) as Record<string, string>)]);
  const named = rows.flatMap(([, , now]) => [...now!.matchAll(/\*([^*]+)\*/gu)].map(([, name]) => name!));
  expect(named.filter((name) => !texts.has(name))).toEqual([]);
});
