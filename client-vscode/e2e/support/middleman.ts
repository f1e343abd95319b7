/** The middleman (`middleman.mjs`) from the tests' side: what the extension asked, and what shall go wrong. */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { NODE, TIMELEAP } from "./places";

export interface Plan {
    silent?: true;
    speak?: number;
    dieBefore?: string;
    dieAfter?: string;
    dieAlways?: string;
    slow?: Record<string, number>;
}

/** One message that passed. `bytes` is the length of its body. */
export interface Passed {
    time: number;
    from: "client" | "server";
    kind: "request" | "reply";
    method?: string;
    params?: Record<string, unknown>;
    bytes: number;
}

export class Middleman {
    readonly folder = mkdtempSync(join(tmpdir(), "tl-mid-"));
    /** For the setting that names the server's command. */
    readonly command: [string, ...string[]] = [disguised(this.folder), join(__dirname, "middleman.mjs"), this.folder, TIMELEAP, "serve"];

    plan(plan: Plan): void {
        mkdirSync(this.folder, { recursive: true });
        writeFileSync(join(this.folder, "plan.json"), JSON.stringify(plan));
    }

    /** What passed since `since` (a moment of `Date.now()`). */
    passed(since = 0): Passed[] {
        const file = join(this.folder, "traffic.jsonl");
        if (!existsSync(file)) return [];
        const lines = readFileSync(file, "utf8").split("\n").filter((line) => line !== "");
        return lines.map((line) => JSON.parse(line) as Passed).filter(({ time }) => time >= since);
    }

    /** What the extension asked for by `method`. */
    asked(method: string, since = 0): Passed[] {
        return this.passed(since).filter((one) => one.from === "client" && one.method === method);
    }

    /** Whether the server has answered a request of that method. */
    answered(method: string, since: number): boolean {
        return this.passed(since).some((one) => one.from === "server" && one.kind === "reply" && one.method === method);
    }

    remove(): void {
        rmSync(this.folder, { recursive: true, force: true });
    }
}

/** Node.js by the name of the server, since messages name the program; where a link wants no privilege. */
function disguised(folder: string): string {
    if (process.platform === "win32") return NODE;
    const link = join(folder, "timeleap");
    symlinkSync(NODE, link);
    return link;
}
