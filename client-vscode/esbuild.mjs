/**
 * Bundles the extension into one file, the client library into another, which is loaded when a server is needed, and the conversation's
 * page into a script and a style; fails when one grows over its limit. `node esbuild.mjs --watch` builds on every change.
 */

import { cpSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { build, context } from "esbuild";
import { clientAside, readsNames, sharesModules, tableAside } from "./libraries.mjs";

const common = { bundle: true, minify: true, charset: "utf8", logLevel: "warning" };

/** What runs in the editor's process for extensions. */
const host = {
  ...common,
  platform: "node",
  format: "cjs",
  target: "node20", // what the oldest VS Code that we run in has
  sourcemap: true,
  sourcesContent: false,
};

const bundles = [
  {
    limit: 180 * 1024,
    options: {
      ...host,
      entryPoints: ["src/extension.ts"],
      outfile: "dist/extension.js",
      plugins: [sharesModules, clientAside, tableAside],
      supported: { "dynamic-import": false }, // the way of modules would be set up first, for one file
      logOverride: { "import-is-undefined": "error" },
    },
  },
  { limit: 21 * 1024, options: { ...host, entryPoints: ["../protocol/typescript/src/client.ts"], outfile: "dist/client.js", plugins: [sharesModules] } },
  {
    limit: 145 * 1024,
    options: {
      ...common,
      entryPoints: ["webview/src/editor.ts"],
      outfile: "dist/webview/page.js",
      platform: "browser",
      format: "iife",
      target: "chrome132", // of the same
      tsconfig: "webview/tsconfig.json",
      alias: { "linkify-it": "./webview/src/noLinks.ts" },
      plugins: [readsNames],
    },
  },
  { limit: 15 * 1024, options: { ...common, entryPoints: ["webview/page.css"], outfile: "dist/webview/page.css" } },
];

// The conversation that a newcomer may try things on.
cpSync("../examples/sample-session.jsonl", "dist/sample/context.jsonl");
const { masked: _, unmasked: __, repeatedly: ___, ...masks } = JSON.parse(readFileSync("../protocol/timeleap_protocol/secret_masks.json", "utf8"));
writeFileSync("dist/secret_masks.json", JSON.stringify(masks));

if (process.argv.includes("--watch")) {
  for (const { options } of bundles) {
    await (await context(options)).watch();
  }
} else {
  for (const { limit, options } of bundles) {
    await build(options);
    const { size } = statSync(options.outfile);
    console.log(`${options.outfile}: ${Math.ceil(size / 1024)} KB of at most ${limit / 1024}`);
    if (size > limit) {
      process.exitCode = 1;
    }
  }
}
