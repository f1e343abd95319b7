/** What the bundles leave out of libraries. */

import { readdirSync, readFileSync } from "node:fs";

/** Markdown needs the names of characters to read them only; the library's way to write them would be an eighth of the page. */
export const readsNames = {
  name: "reads names of characters",
  setup: ({ onResolve, resolve }) => onResolve({ filter: /^entities$/ }, ({ resolveDir, kind }) => resolve("entities/lib/decode.js", { resolveDir, kind })),
};

/**
 * All modules share what the editor and Node.js give: each name of it that a source uses becomes a variable of the bundle, asked for
 * once. Without this each module asks for itself, and copies all of the editor's names as it is loaded.
 */
export const sharesModules = {
  name: "shares modules",
  setup: ({ onResolve, onLoad }) => {
    onResolve({ filter: /^(?:vscode|node:.*)$/ }, ({ path, namespace }) => (namespace === "shared" ? { path, external: true } : { path, namespace: "shared" }));
    onLoad({ filter: /.*/, namespace: "shared" }, async ({ path }) => {
      const names = path === "vscode" ? namesUsed() : Object.keys(await import(path)).filter((name) => name !== "default");
      return { contents: [`const api = require("${path}");`, ...names.map((name) => `export const ${name} = /* @__PURE__ */ (() => api.${name})();`)].join("\n") };
    });
  },
};

/** The names after `vscode.` in the sources. Those of types are dropped again, since nothing that runs uses them. */
function namesUsed() {
  const files = readdirSync("src", { recursive: true }).filter((file) => file.endsWith(".ts"));
  const found = files.flatMap((file) => readFileSync(`src/${file}`, "utf8").match(/(?<=\bvscode\.)[A-Za-z]\w*/gu) ?? []);
  return [...new Set(found)];
}

/** The client library is a bundle beside the extension's: nothing needs it before there is a server to speak to. */
export const clientAside = {
  name: "client aside",
  setup: ({ onResolve }) => onResolve({ filter: /^timeleap-client$/ }, ({ kind }) => (kind === "dynamic-import" ? { path: "./client.js", external: true } : undefined)),
};

/** The table of secrets' forms stays a file beside the bundle, read when chat asks for a conversation. */
export const tableAside = {
  name: "table aside",
  setup: ({ onResolve }) => onResolve({ filter: /\/secret_masks\.json$/ }, () => ({ path: "./secret_masks.json", external: true })),
};
