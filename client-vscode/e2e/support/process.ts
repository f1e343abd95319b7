/** Child processes that the tests start, and whether others still live. */
import { type ChildProcess, execFile } from "node:child_process";
import { promisify } from "node:util";
import { setTimeout as sleep } from "node:timers/promises";

const execute = promisify(execFile);

/** Run a program to its end and return what it said; an error carries its standard error. */
export async function run(program: string, args: string[], env: NodeJS.ProcessEnv, cwd?: string): Promise<string> {
    const { stdout } = await execute(program, args, { env, maxBuffer: 64 << 20, ...(cwd === undefined ? {} : { cwd }) });
    return stdout;
}

/** Whether a process of that id lives. */
export function lives(pid: number): boolean {
    try {
        process.kill(pid, 0);
        return true;
    } catch (error) {
        return (error as NodeJS.ErrnoException).code === "EPERM";
    }
}

/** Ask until `condition` holds; an error that names `what` after `patience` milliseconds. */
export async function until(what: string, condition: () => boolean | Promise<boolean>, patience = 60_000): Promise<void> {
    const end = Date.now() + patience;
    while (!(await condition())) {
        if (Date.now() > end) throw new Error(`waited ${String(patience)} ms in vain: ${what}`);
        await sleep(50);
    }
}

/** End a child politely, then for certain. */
export async function end(child: ChildProcess): Promise<void> {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGTERM");
    const late = setTimeout(() => child.kill("SIGKILL"), 30_000);
    await gone;
    clearTimeout(late);
}
