/** A Timeleap store that tests fill and look into: with the program itself from outside, and file by file on disk. */
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { TIMELEAP } from "./places";
import { lives, run, until } from "./process";

export type LogRecord = { role: string; content?: unknown; id?: number; token_count?: number } & Record<string, unknown>;

interface Frame {
    id?: number;
    method?: string;
    params?: Record<string, unknown>;
    result?: unknown;
    error?: unknown;
}

interface Waiting {
    method: string;
    resolve: (result: unknown) => void;
    reject: (error: Error) => void;
}

interface Owner {
    pid: number;
}

export class Store {
    constructor(
        readonly home: string,
        readonly variables: NodeJS.ProcessEnv,
    ) {}

    /** Ask one request of a server process of its own, as `timeleap call` does. */
    async call<Result>(method: string, params: Record<string, unknown>): Promise<Result> {
        return JSON.parse(await run(TIMELEAP, ["call", method, JSON.stringify(params)], this.variables)) as Result;
    }

    /** A session with the records of a log, put on disk as another program would. */
    add(sessionId: string, log: string | Buffer, files: Record<string, string> = {}): void {
        const folder = join(this.home, "sessions", sessionId);
        if (existsSync(folder)) throw new Error(`a session ${sessionId} is there already: files that share a workbench share the store`);
        mkdirSync(folder, { recursive: true, mode: 0o700 });
        writeFileSync(join(folder, "context.jsonl"), log);
        for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
    }

    /** A session "long" of so many checkpoints, each with a question and an answer, put on disk; its title is "A long session". */
    addLong(checkpoints: number): void {
        if (this.sessions().includes("long")) return; // of another file that shares the workbench
        const log = Array.from({ length: checkpoints }, (_, number) => [
            { role: "_checkpoint", id: number },
            { role: "user", content: `Step ${String(number)}: ${"look at the **next** file, ".repeat(8)}` },
            { role: "assistant", content: `Answer ${String(number)}.\n\n- one\n- two\n\n\`code\`` },
            { role: "_usage", token_count: 40 * (number + 1) },
        ]).flat();
        this.add("long", log.map((record) => `${JSON.stringify(record)}\n`).join(""), { "state.json": JSON.stringify({ version: 1, custom_title: "A long session" }) });
    }

    /** A session with the records of a log, written through the server, so that it has uids, times and a workspace. */
    async replay(sessionId: string, log: string, known: { title?: string; workspace?: string } = {}): Promise<void> {
        if (this.sessions().includes(sessionId)) throw new Error(`a session ${sessionId} is there already: files that share a workbench share the store`);
        const pipeline = this.pipeline();
        await pipeline.call("initialize", { initializationOptions: { durability: "os" } });
        await pipeline.replay(sessionId, log, known);
        await pipeline.close();
    }

    file(sessionId: string, name: string): string {
        return join(this.home, "sessions", sessionId, name);
    }

    /** The bytes of the live log, or of a timeline. */
    log(sessionId: string, name = "context.jsonl"): string {
        return readFileSync(this.file(sessionId, name), "utf8");
    }

    records(sessionId: string, name = "context.jsonl"): LogRecord[] {
        const lines = this.log(sessionId, name).split("\n").filter((line) => line.trim() !== "");
        return lines.map((line) => JSON.parse(line) as LogRecord);
    }

    messages(sessionId: string): LogRecord[] {
        return this.records(sessionId).filter(({ role }) => !role.startsWith("_"));
    }

    checkpoints(sessionId: string): number[] {
        return this.records(sessionId).flatMap(({ role, id }) => (role === "_checkpoint" && id !== undefined ? [id] : []));
    }

    /** Names of the logs that were set aside, oldest first. */
    timelines(sessionId: string): string[] {
        const number = (name: string): number => Number(/\d+/.exec(name)?.[0]);
        return readdirSync(join(this.home, "sessions", sessionId))
            .filter((name) => /^context_\d+\.jsonl$/.test(name))
            .sort((one, other) => number(one) - number(other));
    }

    sessions(): string[] {
        const folder = join(this.home, "sessions");
        return existsSync(folder) ? readdirSync(folder) : [];
    }

    /** The process that holds the session's lock. */
    owner(sessionId: string): number | undefined {
        const lock = this.file(sessionId, ".context.jsonl.lock");
        if (!existsSync(lock)) return undefined;
        const text = readFileSync(lock, "utf8");
        return text === "" ? undefined : (JSON.parse(text) as Owner).pid;
    }

    /** The process that holds it, once that is one which lives: rows may be shown while the session is being opened again. */
    async livingOwner(sessionId: string): Promise<number> {
        let owner: number | undefined;
        await until(`a process has ${sessionId} open`, () => {
            owner = this.owner(sessionId);
            return owner !== undefined && lives(owner);
        });
        return owner ?? 0;
    }

    /** Milliseconds from starting the program to its first answer. */
    async coldStart(): Promise<number> {
        const started = performance.now();
        const server = this.pipeline();
        await server.call("initialize");
        const took = performance.now() - started;
        await server.close();
        return took;
    }

    /**
     * A shell pipeline on a session: requests go in line by line, and the session stays its own until it is closed.
     * Default: on the server itself.
     */
    pipeline([program, ...args]: readonly [string, ...string[]] = [TIMELEAP, "serve"]): Pipeline {
        return new Pipeline(spawn(program, args, { env: this.variables, stdio: ["pipe", "pipe", "inherit"] }));
    }
}

/** Another program with a server of its own, in line-delimited JSON as a shell script would speak it. */
export class Pipeline {
    private readonly notified: Frame[] = [];
    private readonly waiting = new Map<number, Waiting>();
    private readonly gone: Promise<unknown>;
    private number = 0;

    constructor(private readonly server: ChildProcessByStdio<Writable, Readable, null>) {
        createInterface({ input: server.stdout }).on("line", (line) => {
            this.take(JSON.parse(line) as Frame);
        });
        this.gone = new Promise((resolve) => server.once("exit", resolve));
        void this.gone.then(() => {
            for (const { method, reject } of this.waiting.values()) reject(new Error(`${method}: the server is gone`));
        });
    }

    /** Send a request and wait for its result. */
    call<Result>(method: string, params: Record<string, unknown> = {}): Promise<Result> {
        const id = (this.number += 1);
        this.server.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
        return new Promise((resolve, reject) => {
            this.waiting.set(id, { method, resolve: resolve as Waiting["resolve"], reject });
        });
    }

    /** The params of the notifications of that name that have come so far. */
    heard(method: string): Record<string, unknown>[] {
        return this.notified.flatMap((frame) => (frame.method === method && frame.params ? [frame.params] : []));
    }

    /** Open a session (a new one is created) and append what a log has. */
    async replay(sessionId: string, log: string, known: Record<string, string> = {}): Promise<void> {
        const opened = this.call("session/open", { sessionId, ...known });
        const records = log.split("\n").filter((line) => line !== "");
        const written = records.map((line) => {
            const [method, params] = asRequest(JSON.parse(line) as LogRecord);
            return this.call(method, { sessionId, ...params });
        });
        await Promise.all([opened, ...written]);
    }

    /** End the input; the server finishes what it has and ends. */
    async close(): Promise<void> {
        this.server.stdin.end();
        await this.gone;
    }

    private take(frame: Frame): void {
        const asked = frame.id === undefined ? undefined : this.waiting.get(frame.id);
        if (!asked || frame.id === undefined) {
            this.notified.push(frame);
            return;
        }
        this.waiting.delete(frame.id);
        if (frame.error === undefined) asked.resolve(frame.result);
        else asked.reject(new Error(`${asked.method}: ${JSON.stringify(frame.error)}`));
    }
}

/** The request that writes such a record. */
function asRequest(record: LogRecord): [string, Record<string, unknown>] {
    switch (record.role) {
        case "_system_prompt":
            return ["context/setSystemPrompt", { systemPrompt: record.content }];
        case "_checkpoint":
            return ["context/checkpoint", {}];
        case "_usage":
            return ["context/updateTokenCount", { tokenCount: record.token_count }];
        default:
            return ["context/appendMessage", { message: record }];
    }
}
