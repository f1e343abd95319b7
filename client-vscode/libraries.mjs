/** What the bundles leave out of libraries. */

/** Markdown needs the names of characters to read them only; the library's way to write them would be an eighth of the page. */
export const readsNames = {
  name: "reads names of characters",
  setup: ({ onResolve, resolve }) => onResolve({ filter: /^entities$/ }, ({ resolveDir, kind }) => resolve("entities/lib/decode.js", { resolveDir, kind })),
};

/** All modules share what `vscode` is, in place of asking for it each. */
export const asksOnceForVscode = {
  name: "asks once for vscode",
  setup: ({ onResolve, onLoad }) => {
    onResolve({ filter: /^vscode$/ }, ({ namespace }) => (namespace === "vscode" ? { path: "vscode", external: true } : { path: "vscode", namespace: "vscode" }));
    onLoad({ filter: /.*/, namespace: "vscode" }, () => ({ contents: 'module.exports = require("vscode")' }));
  },
};

/** The table of secrets' forms stays a file beside the bundle, read when chat asks for a conversation. */
export const tableAside = {
  name: "table aside",
  setup: ({ onResolve }) => onResolve({ filter: /\/secret_masks\.json$/ }, () => ({ path: "./secret_masks.json", external: true })),
};
