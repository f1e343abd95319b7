// Builds `dist`. npm runs this where the package is packed, and where a project installs the folder of a checkout
// (`npm install path/to/protocol/typescript`): npm then links the folder without installing what the build needs.
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const folder = dirname(fileURLToPath(import.meta.url));
const compiler = join(folder, "node_modules", "typescript", "bin", "tsc");
const options = { cwd: folder, stdio: ["ignore", "inherit", "inherit"] };

if (!existsSync(compiler)) {
    // The options of the npm that runs us are about the other project.
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(npm_config_(global|prefix|local_prefix|location|omit|production|install_links|dry_run)|NODE_ENV)$/i.test(name)));
    const npm = process.platform === "win32" ? "npm.cmd" : "npm";
    const arguments_ = ["ci", "--ignore-scripts", "--include=dev", "--no-audit", "--no-fund", "--loglevel=error"];
    execFileSync(npm, arguments_, { ...options, env, shell: process.platform === "win32" });
}
execFileSync(process.execPath, [compiler, "-p", "tsconfig.build.json"], options);
