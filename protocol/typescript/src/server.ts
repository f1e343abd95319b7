/** The server as a child process: its three streams and its end. */

import { spawn, type ChildProcessByStdio } from "node:child_process";
import type { Readable, Writable } from "node:stream";
import { StartFailedError, type Exit } from "./errors.js";

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

const TAIL = 8_000;
const STREAMS_AFTER_EXIT = 1_000;

/** A running server. */
export class ServerProcess {
  /** Resolves when the process has ended and its output is read; rejects with `StartFailedError` where it never ran. */
  readonly ended: Promise<Exit>;
  private readonly child: ChildProcessByStdio<Writable, Readable, Readable>;
  private running = true;
  private tail = "";

  /** @throws StartFailedError for what no process can be started with; most reasons show in `ended` only. */
  constructor(server: ServerCommand, onLog: (text: string) => void) {
    try {
      this.child = spawn(server.command, [...(server.args ?? ["serve"])], {
        env: { ...process.env, ...server.env },
        stdio: ["pipe", "pipe", "pipe"],
        windowsHide: true,
        // A Ctrl-C meant for us must not reach the server behind our back: we decide about its end, and should we be
        // killed, it sees the end of its input. (On Windows this would open a console window.)
        detached: process.platform !== "win32",
        ...(server.cwd === undefined ? {} : { cwd: server.cwd }),
      });
    } catch (error) {
      throw new StartFailedError(cannotStart(server, error as Error));
    }
    // A server that is gone shows itself by the end of its output; a failed write adds nothing to that.
    this.child.stdin.on("error", () => undefined);
    this.child.stdout.on("error", () => undefined);
    this.child.stderr.setEncoding("utf8").on("data", (text: string) => {
      this.tail = (this.tail + text).slice(-TAIL);
      onLog(text);
    });
    this.ended = this.watch(server);
    const stopped = (): void => {
      this.running = false;
    };
    this.ended.then(stopped, stopped);
  }

  get pid(): number | undefined {
    return this.running ? this.child.pid : undefined;
  }

  /** The last of what it wrote to its standard error output. */
  get log(): string {
    return this.tail.trimEnd();
  }

  /** Its output, chunk by chunk; `end` is called once, when there is no more. */
  read(take: (chunk: Buffer) => void, end: () => void): void {
    this.child.stdout.on("data", take);
    this.child.stdout.once("end", end);
  }

  /** Queues `data` for its input, in the order of the calls; lost if that is closed. */
  write(data: Buffer): void {
    if (this.child.stdin.writable) {
      this.child.stdin.write(data);
    }
  }

  /** Tells it that no more comes: it finishes what it has and ends; by force where that takes over `grace` ms. */
  finish(grace: number): Promise<Exit> {
    this.child.stdin.end();
    if (this.running) {
      const force = setTimeout(() => this.kill(), grace);
      force.unref(); // a program that ends meanwhile need not wait: the server has seen the end of its input
      const settle = (): void => clearTimeout(force);
      this.ended.then(settle, settle);
    }
    return this.ended;
  }

  /** Ends it at once. */
  kill(): void {
    this.child.kill("SIGKILL");
  }

  private watch(server: ServerCommand): Promise<Exit> {
    return new Promise((resolve, reject) => {
      this.child.on("error", (error) => {
        if (this.child.pid === undefined) {
          reject(new StartFailedError(cannotStart(server, error)));
        }
      });
      this.child.once("close", (code, signal) => resolve({ code, signal }));
      // A grandchild that inherited a stream could hold it open for ever.
      this.child.once("exit", (code, signal) => {
        setTimeout(() => resolve({ code, signal }), STREAMS_AFTER_EXIT).unref();
      });
    });
  }
}

function cannotStart(server: ServerCommand, error: Error): string {
  const where = server.cwd === undefined ? "" : ` in ${server.cwd}`;
  const missing = server.cwd === undefined && (error as NodeJS.ErrnoException).code === "ENOENT";
  const reason = missing ? "there is no such program; put it on the PATH, or give its full path as `command`" : error.message;
  return `cannot start ${JSON.stringify(server.command)}${where}: ${reason}`;
}
