/** A PostgreSQL server of a test's own, which goes away and comes back when that is asked for. */
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { PYTHON } from "./places";

export class Database {
    private constructor(
        private readonly process: ChildProcessByStdio<Writable, Readable, null>,
        private readonly lines: AsyncIterator<string, undefined>,
        readonly url: string,
    ) {}

    static async start(): Promise<Database> {
        const process = spawn(PYTHON, [join(__dirname, "database.py")], { stdio: ["pipe", "pipe", "inherit"] });
        const lines = createInterface({ input: process.stdout })[Symbol.asyncIterator]();
        return new Database(process, lines, await next(lines));
    }

    /** Stop at once, as in a crash. */
    async goAway(): Promise<void> {
        this.process.stdin.write("stop\n");
        await next(this.lines);
    }

    async comeBack(): Promise<void> {
        this.process.stdin.write("start\n");
        await next(this.lines);
    }

    /** End it, and remove its data. */
    async end(): Promise<void> {
        const ended = new Promise((resolve) => this.process.once("exit", resolve));
        this.process.stdin.end();
        await ended;
    }
}

async function next(lines: AsyncIterator<string, undefined>): Promise<string> {
    const { done, value } = await lines.next();
    if (done) throw new Error("PostgreSQL did not start; what it said is above");
    return value;
}
