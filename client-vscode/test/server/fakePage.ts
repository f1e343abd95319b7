/** A stand-in for the page in the editor. */

import { expect, vi } from "vitest";
import type { Facts, FromPage, ShownMessage, ToPage } from "../../src/features/page/wire.js";
import { user } from "../support/vscode.js";

export const WAIT = { timeout: 20_000, interval: 20 };

/** The page of the test: what the extension tells it, and what it says. */
export class FakePage {
  private at = 0;
  /** What stands in the page. */
  private readonly first: readonly ToPage[];

  constructor(private readonly panel = user.panels[0]!) {
    const [, first = "[]"] = /id="first">([^<]*)</.exec(panel.webview.html) ?? [];
    this.first = JSON.parse(first) as ToPage[];
  }

  say(message: FromPage): void {
    this.panel.say(message);
  }

  get told(): ToPage[] {
    return [...this.first, ...(this.panel.told as unknown as ToPage[])];
  }

  /** What comes is told from now on only. */
  forget(): void {
    this.at = this.told.length;
  }

  /** The next of its kind that fits. */
  async next<K extends ToPage["kind"]>(kind: K, fits: (message: Extract<ToPage, { kind: K }>) => boolean = () => true): Promise<Extract<ToPage, { kind: K }>> {
    const of = (): Extract<ToPage, { kind: K }> | undefined =>
      this.told.slice(this.at).find((message): message is Extract<ToPage, { kind: K }> => message.kind === kind && fits(message as Extract<ToPage, { kind: K }>));
    await vi.waitFor(() => expect(of()).toBeDefined(), WAIT);
    return of()!;
  }

  get facts(): Facts {
    return this.told.filter((message): message is Extract<ToPage, { kind: "facts" }> => message.kind === "facts").at(-1)!.facts;
  }

  async read(from: number, to: number): Promise<readonly ShownMessage[]> {
    this.forget();
    this.say({ kind: "read", epoch: this.facts.epoch, from, to });
    return (await this.next("messages", (message) => message.from === from)).messages;
  }
}

/** What a command had the page show, over the conversation of that session. */
export function overPage(): { readonly sessionId?: string; readonly sheet?: { readonly title: string; readonly blocks: readonly object[] }; readonly compare?: object } {
  return user.executed.findLast(({ command }) => command === "timeleap.openConversation")?.args[0] ?? {};
}
