// Runs checks inside the extension host, beside the installed extension, and reports to the test outside (`tests/host.test.ts`).
// Node.js strips the types by itself; what is imported must be asked for with `require`.
import type * as Vscode from "vscode";
import type { TimeleapApi } from "../../src/features/api/apiTypes";

const assert: typeof import("node:assert/strict") = require("node:assert/strict") as typeof import("node:assert/strict");
const fs = require("node:fs") as typeof import("node:fs");
const vscode = require("vscode") as typeof Vscode;

interface Outcome {
    name: string;
    error?: string;
    facts?: Record<string, number>;
}

export type Check = () => Promise<Record<string, number> | undefined>;

/** What this module exports. */
export interface Running {
    home: string;
    installed: () => Vscode.Extension<TimeleapApi>;
    running: (checks: Map<string, Check>) => () => Promise<void>;
}

/** Where the server keeps its sessions. */
const home = process.env["TIMELEAP_HOME"] ?? "";

function installed(): Vscode.Extension<TimeleapApi> {
    const found = vscode.extensions.getExtension<TimeleapApi>("timeleap.timeleap");
    assert(found, "the extension is not installed");
    return found;
}

/** What VS Code calls: all checks, one after the other. */
function running(checks: Map<string, Check>): () => Promise<void> {
    return async () => {
        const outcomes: Outcome[] = [];
        for (const [name, check] of checks) {
            try {
                const facts = await check();
                outcomes.push({ name, ...(facts ? { facts } : {}) });
            } catch (error) {
                outcomes.push({ name, error: error instanceof Error ? (error.stack ?? error.message) : String(error) });
            }
        }
        fs.writeFileSync(process.env["TIMELEAP_HOST_REPORT"] ?? "", JSON.stringify(outcomes));
    };
}

module.exports = { home, installed, running } satisfies Running;
