/** Giving a prompt that a person wants to change to the agent whose input it is for. */

import * as vscode from "vscode";
import type { Message } from "timeleap-client";
import type { Workbench } from "../core/commands/register.js";
import type { Session } from "../core/sessions/session.js";

export interface Prompt {
  readonly session: Session;
  readonly text: string;
  readonly message: Message;
  readonly messageIndex: number;
  readonly checkpointUid?: string;
}

export type TakePrompt = (prompt: Prompt) => boolean | Thenable<boolean>;

/** Milliseconds that one handler gets: a person must not wait for an agent that hangs. */
export const HANDLER_TIMEOUT = 5_000;

const known = new WeakMap<object, Prompts>();

/** Those of a window: agents' extensions register, and pages offer. */
export function promptsOf({ sessions, log }: Pick<Workbench, "sessions" | "log">): Prompts {
  const prompts = known.get(sessions) ?? new Prompts(log);
  known.set(sessions, prompts);
  return prompts;
}

export class Prompts {
  private readonly handlers: TakePrompt[] = [];

  constructor(
    private readonly log: Pick<vscode.LogOutputChannel, "error">,
    private readonly timeout = HANDLER_TIMEOUT,
  ) {}

  handle(take: TakePrompt): vscode.Disposable {
    const handler: TakePrompt = (prompt) => take(prompt); // the same function may be registered twice
    this.handlers.push(handler);
    return new vscode.Disposable(() => {
      const at = this.handlers.indexOf(handler);
      if (at !== -1) {
        this.handlers.splice(at, 1);
      }
    });
  }

  /** Whether a handler has taken it; they are asked one after the other. */
  async offer(prompt: Prompt): Promise<boolean> {
    for (const handler of [...this.handlers]) {
      if (await this.ask(handler, prompt)) {
        return true;
      }
    }
    return false;
  }

  private async ask(handler: TakePrompt, prompt: Prompt): Promise<boolean> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<false>((resolve) => {
      timer = setTimeout(resolve, this.timeout, false);
    });
    try {
      const taken: unknown = await Promise.race([handler(prompt), late]);
      return taken === true; // other extensions may return anything
    } catch (error) {
      this.log.error(`An extension failed to take a prompt: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
      return false;
    } finally {
      clearTimeout(timer);
    }
  }
}
