/**
 * The parts that the page of an exported session (server/timeleap/features/transfer/assets) has from here: tool calls as cards, with
 * their style, and the libraries' licences. `node exported.mjs` writes them; with `--check` it fails where they are others.
 */

import { readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const ASSETS = new URL("../server/timeleap/features/transfer/assets/", import.meta.url);

async function built(entry, options = {}) {
  const { outputFiles } = await build({ entryPoints: [entry], bundle: true, minify: true, write: false, logLevel: "warning", ...options });
  return outputFiles[0].text;
}

const { version } = JSON.parse(readFileSync("node_modules/diff/package.json", "utf8"));
const parts = {
  "card.min.js": await built("webview/src/card.ts", {
    format: "iife",
    globalName: "EDITOR_CARDS",
    target: "es2022",
    tsconfig: "webview/tsconfig.json",
    banner: { js: `/*! Made of client-vscode/webview/src/card.ts, with diff ${version} (BSD-3-Clause, diff.LICENSE) */` },
  }),
  "card.min.css": await built("webview/card.css"),
  "diff.LICENSE": readFileSync("node_modules/diff/LICENSE", "utf8"),
};

for (const [name, text] of Object.entries(parts)) {
  const file = new URL(name, ASSETS);
  if (!process.argv.includes("--check")) {
    writeFileSync(file, text);
  } else if (readFileSync(file, "utf8") !== text) {
    console.error(`${name} is not what its sources make: run npm run exported`);
    process.exitCode = 1;
  }
}
