/** Bundles the extension into one file; fails when it grows over its limit. `node esbuild.mjs --watch` builds on every change. */

import { statSync } from "node:fs";
import { build, context } from "esbuild";

const LIMIT = 250 * 1024;
const OUTPUT = "dist/extension.js";

/** The oldest VS Code we run in has Node.js 20. */
const options = {
  entryPoints: ["src/extension.ts"],
  outfile: OUTPUT,
  bundle: true,
  platform: "node",
  format: "cjs",
  target: "node20",
  external: ["vscode"],
  minify: true,
  sourcemap: true,
  sourcesContent: false,
  logLevel: "warning",
};

if (process.argv.includes("--watch")) {
  await (await context(options)).watch();
} else {
  await build(options);
  const { size } = statSync(OUTPUT);
  console.log(`${OUTPUT}: ${Math.ceil(size / 1024)} KB of at most ${LIMIT / 1024}`);
  if (size > LIMIT) {
    process.exitCode = 1;
  }
}
