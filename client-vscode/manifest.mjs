/**
 * Composes `contributes` of package.json from the manifest.json of the core and of each feature: objects are merged, lists joined, the
 * core's part first. `node manifest.mjs` writes package.json; with `--check` it fails where package.json is another.
 */

import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";

const SOURCES = new URL("src/", import.meta.url);
const PACKAGE = new URL("package.json", import.meta.url);

function merged(one, other) {
  if (Array.isArray(one)) {
    return [...one, ...other];
  }
  if (typeof one !== "object") {
    throw new Error(`two parts of the manifest set the same: ${JSON.stringify(one)} and ${JSON.stringify(other)}`);
  }
  const result = { ...one };
  for (const [key, value] of Object.entries(other)) {
    result[key] = key in result ? merged(result[key], value) : value;
  }
  return result;
}

const features = readdirSync(new URL("features/", SOURCES)).sort();
const files = ["core", ...features.map((name) => `features/${name}`)].map((folder) => new URL(`${folder}/manifest.json`, SOURCES));
const parts = files.filter((file) => existsSync(file)).map((file) => JSON.parse(readFileSync(file, "utf8")));
const before = readFileSync(PACKAGE, "utf8");
const text = `${JSON.stringify({ ...JSON.parse(before), contributes: parts.reduce(merged) }, null, 2)}\n`;

if (!process.argv.includes("--check")) {
  writeFileSync(PACKAGE, text);
} else if (text !== before) {
  console.error("package.json is not what the parts of the manifest make: run npm run manifest");
  process.exitCode = 1;
}
