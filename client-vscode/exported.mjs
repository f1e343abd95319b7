/**
 * The script and the style of the page that a session is exported to (server/timeleap/features/transfer/assets): those of the page in the
 * editor, with its words in every language, and the libraries' licences. `node exported.mjs` writes them; with `--check` it fails where
 * they are others.
 */

import { readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";
import { readsNames } from "./libraries.mjs";

const ASSETS = new URL("../server/timeleap/features/transfer/assets/", import.meta.url);
const LIBRARIES = ["diff", "markdown-it"];

const read = (file) => readFileSync(file, "utf8");
const { version: diff } = JSON.parse(read("node_modules/diff/package.json"));
const { version: markdown } = JSON.parse(read("node_modules/markdown-it/package.json"));

async function built(entry, options = {}) {
  const { outputFiles } = await build({ entryPoints: [entry], bundle: true, minify: true, write: false, logLevel: "warning", ...options });
  return outputFiles[0].text;
}

/** The words of the page. @param bundle The translations of those that its sources have, which are English. @param titles Those of the manifest */
async function words(bundle, titles) {
  const manifest = JSON.parse(read("package.json"), (_, value) => titles[/^%(.+)%$/.exec(value)?.[1]] ?? value);
  const vscode = { name: "vscode", setup: ({ onResolve, onLoad }) => {
    onResolve({ filter: /^vscode$/ }, () => ({ path: "vscode", namespace: "vscode" }));
    onLoad({ filter: /.*/, namespace: "vscode" }, () => ({ contents: `const bundle = ${JSON.stringify(bundle)}; export const l10n = { t: (text) => bundle[text] ?? text }; export const extensions = { getExtension: () => ({ packageJSON: ${JSON.stringify({ contributes: { commands: manifest.contributes.commands } })} }) };` }));
  } };
  const text = await built("src/features/page/words.ts", { format: "esm", plugins: [vscode] });
  const made = await import(`data:text/javascript,${encodeURIComponent(text)}`);
  return { page: made.words(), file: made.wordsOfFile() };
}

const english = await words({}, JSON.parse(read("package.nls.json")));
const chinese = await words(JSON.parse(read("l10n/bundle.l10n.zh-cn.json")), JSON.parse(read("package.nls.zh-cn.json")));
const parts = {
  "page.min.js": await built("webview/src/exported.ts", {
    format: "iife",
    target: "es2022",
    tsconfig: "webview/tsconfig.json",
    alias: { "linkify-it": "./webview/src/noLinks.ts", "timeleap-client": "../protocol/typescript/src/index.ts" },
    plugins: [readsNames],
    define: { WORDS: JSON.stringify({ en: english, "zh-cn": chinese }) },
    legalComments: "none",
    banner: { js: `/*! Made of client-vscode/webview, with markdown-it ${markdown} (MIT, markdown-it.LICENSE) and diff ${diff} (BSD-3-Clause, diff.LICENSE) */` },
  }),
  "page.min.css": await built("webview/exported.css"),
  ...Object.fromEntries(LIBRARIES.map((name) => [`${name}.LICENSE`, read(`node_modules/${name}/LICENSE`)])),
};

for (const [name, text] of Object.entries(parts)) {
  const file = new URL(name, ASSETS);
  if (!process.argv.includes("--check")) {
    writeFileSync(file, text);
  } else if (read(file) !== text) {
    console.error(`${name} is not what its sources make: run npm run exported`);
    process.exitCode = 1;
  }
}
