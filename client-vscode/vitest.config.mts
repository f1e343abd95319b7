import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

/** The library and the editor, as the sources name them. */
const resolve = {
  alias: {
    vscode: here("test/support/vscode.ts"),
    "timeleap-client": here("../protocol/typescript/src/index.ts"),
  },
};

export default defineConfig({
  test: {
    projects: [
      // The files share what is loaded: each for itself takes twice the time.
      { resolve, test: { name: "unit", isolate: false, include: ["test/unit/**/*.test.ts", "webview/test/**/*.test.ts"], testTimeout: 60_000 } },
      // Against a real server: the one that TIMELEAP_COMMAND starts.
      { resolve, test: { name: "server", include: ["test/server/**/*.test.ts"], testTimeout: 60_000, hookTimeout: 60_000 } },
    ],
  },
});
