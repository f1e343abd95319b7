/**
 * Bundles the extension into one file, and the conversation's page into a script and a style beside it; fails when one grows over its
 * limit. `node esbuild.mjs --watch` builds on every change.
 */

import { cpSync, statSync } from "node:fs";
import { build, context } from "esbuild";

const common = { bundle: true, minify: true, logLevel: "warning" };

const bundles = [
  {
    limit: 235 * 1024,
    options: {
      ...common,
      entryPoints: ["src/extension.ts"],
      outfile: "dist/extension.js",
      platform: "node",
      format: "cjs",
      target: "node20", // what the oldest VS Code that we run in has
      external: ["vscode"],
      sourcemap: true,
      sourcesContent: false,
    },
  },
  {
    limit: 200 * 1024,
    options: {
      ...common,
      entryPoints: ["webview/src/editor.ts"],
      outfile: "dist/webview/page.js",
      platform: "browser",
      format: "iife",
      target: "chrome132", // of the same
      tsconfig: "webview/tsconfig.json",
      alias: { "linkify-it": "./webview/src/noLinks.ts" },
    },
  },
  { limit: 30 * 1024, options: { ...common, entryPoints: ["webview/page.css"], outfile: "dist/webview/page.css" } },
];

// The conversation that a newcomer may try things on.
cpSync("../examples/sample-session.jsonl", "dist/sample/context.jsonl");

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
