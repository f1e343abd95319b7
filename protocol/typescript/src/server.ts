/** The server as a child process. */

import { spawn, type ChildProcess } from "node:child_process";
import type { Readable, Writable } from "node:stream";

/** How to start the server. */
export interface ServerCommand {
  /** The program, such as `timeleap`. Never run through a shell. */
  readonly command: string;
  /** Default: `["serve"]`. */
  readonly args?: readonly string[];
  /** Added to this process's environment. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
}

/** How a process ended. */
export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

const KILL_AFTER = 2_000;

/** A running server. Its standard error goes to `onLog`, else to this process's. */
export class ServerProcess {
  readonly input: Writable;
  readonly output: Readable;
  /** Resolves when the process has ended; rejects when it could not be started. */
  readonly ended: Promise<Exit>;
  private running = true;

  constructor(server: ServerCommand, onLog?: (text: string) => void) {
    const child = spawn(server.command, [...(server.args ?? ["serve"])], {
      env: { ...process.env, ...server.env },
      stdio: ["pipe", "pipe", onLog ? "pipe" : "inherit"],
      windowsHide: true,
      ...(server.cwd === undefined ? {} : { cwd: server.cwd }),
    });
    if (!child.stdin || !child.stdout) {
      throw new Error("the server has no standard input and output");
    }
    this.child = child;
    this.input = child.stdin;
    this.output = child.stdout;
    // A server that is gone shows itself by the end of its output; a failed write adds nothing to that.
    this.input.on("error", () => undefined);
    if (onLog) {
      child.stderr?.setEncoding("utf8").on("data", onLog);
    }
    this.ended = new Promise((resolve, reject) => {
      child.once("error", reject);
      child.once("close", (code, signal) => resolve({ code, signal }));
    });
    const stopped = (): void => {
      this.running = false;
    };
    this.ended.then(stopped, stopped);
  }

  private readonly child: ChildProcess;

  /** Ends the process: politely, and after two seconds by force. */
  kill(): void {
    if (!this.running) {
      return;
    }
    this.child.kill("SIGTERM");
    const force = setTimeout(() => this.child.kill("SIGKILL"), KILL_AFTER);
    const settle = (): void => clearTimeout(force);
    this.ended.then(settle, settle);
  }
}
