/** Where the things are that the tests put together: this checkout, its environment, the tools, a browser. */
import { existsSync } from "node:fs";
import { delimiter, join, resolve } from "node:path";

export const ROOT = resolve(__dirname, "../../..");
export const EXTENSION = join(ROOT, "client-vscode");

const windows = process.platform === "win32";
const scripts = join(ROOT, ".venv", windows ? "Scripts" : "bin");

/** The interpreter and the command of this checkout's environment (`make setup`). */
export const PYTHON = join(scripts, windows ? "python.exe" : "python");
export const TIMELEAP = join(scripts, windows ? "timeleap.exe" : "timeleap");

/** The start of code-server, and the Node.js it wants. */
export const WORKBENCH = join(ROOT, ".tools/workbench/node_modules/code-server/out/node/entry.js");
export const NODE = process.execPath;

/** Extensions for tests. */
export const FIXTURES = join(EXTENSION, "e2e/fixtures");

export const SAMPLE_SESSION = join(ROOT, "examples/sample-session.jsonl");

const USUAL_BROWSERS: Record<string, string[]> = {
    darwin: [
        "/Applications/Chromium.app/Contents/MacOS/Chromium",
        "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    ],
    win32: ["C:\\Program Files\\Google\\Chrome\\Application\\chrome.exe"],
};

/** A Chromium, from `TIMELEAP_CHROMIUM`, the path or the usual places; else an error that says how to get one. */
export function chromium(): string {
    const named = process.env["TIMELEAP_CHROMIUM"];
    if (named) return named;
    const onPath = (process.env["PATH"] ?? "")
        .split(delimiter)
        .flatMap((folder) => ["chromium", "chromium-browser", "google-chrome"].map((name) => join(folder, name)));
    const found = [...onPath, ...(USUAL_BROWSERS[process.platform] ?? [])].find((file) => existsSync(file));
    if (found) return found;
    throw new Error(
        "These tests need Chromium or Chrome. Install it with\n" +
            "  Debian: apt-get install chromium fonts-wqy-zenhei\n  macOS:  brew install --cask chromium\n" +
            "or name one: TIMELEAP_CHROMIUM=/path/to/chrome",
    );
}

/** A program of the extension's own developers' tools. */
export function tool(name: string): string {
    return join(EXTENSION, "node_modules", ...name.split("/"));
}
