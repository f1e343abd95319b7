// Put the workbench into a folder: `node install.mjs FOLDER`. Needs the package registry; the tests afterwards do not.
//
// code-server is the real VS Code workbench with the real Node extension host. Nothing native is built: what its install
// scripts would compile (terminal, Kerberos, SQLite) is not used here. What they would install besides, VS Code's own
// packages, is installed by the second step.
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";

const folder = resolve(process.argv[2] ?? "");
const wanted = ["package.json", "package-lock.json", ".npmrc"];
const quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"];
const npm = (cwd, ...words) => execFileSync("npm", [...words, ...quiet], { cwd, stdio: "inherit", shell: process.platform === "win32" });

rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });
for (const name of wanted) copyFileSync(join(import.meta.dirname, "workbench", name), join(folder, name));
npm(folder, "ci");

const vscode = join(folder, "node_modules", "code-server", "lib", "vscode");
npm(vscode, "install", "--omit=dev");

// Half of it all: an agent and its sandbox, sign-in providers, and what needs the network. No test touches them.
const unused = ["node_modules/@github", "node_modules/@microsoft/mxc-sdk"];
const extensions = ["copilot", "mermaid-markdown-features", "microsoft-authentication", "github", "github-authentication"];
for (const name of [...unused, ...extensions.map((extension) => `extensions/${extension}`)])
    rmSync(join(vscode, name), { recursive: true, force: true });
