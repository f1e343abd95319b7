/** What the tests on a real server share. */

import { TimeleapClient, type SessionInfo } from "timeleap-client";
import { vi } from "vitest";
import { ChosenSession } from "../../src/kit/chosen.js";
import { COMMAND, type Row, type Running } from "../support/extension.js";
import { commands, user } from "../support/vscode.js";

export const labels = (rows: readonly Row[]): string[] => rows.map(({ label }) => label);

/** Presses the first of these buttons that whatever asks has. */
export function press(...buttons: string[]): void {
  user.answer = (said) => said.buttons.find((button) => buttons.includes(button));
}

/** Presses each of these buttons the first time that something has it. */
export function pressOnce(...buttons: string[]): void {
  const left = new Set(buttons);
  user.answer = (said) => said.buttons.find((button) => left.delete(button));
}

/** Opens a session by what it is called in the list. */
export async function open(name: string): Promise<void> {
  user.pick = (items) => items.find((item) => (item as { label: string }).label === name);
  await commands.executeCommand("timeleap.openSession");
}

export interface Listed {
  readonly label: string;
  readonly description: string;
  readonly info: SessionInfo;
}

/** What there is to choose from where a session is to be shown, headings included. */
export async function sessionList(): Promise<Listed[]> {
  let offered: unknown[] = [];
  user.pick = (items) => void (offered = [...items]);
  await commands.executeCommand("timeleap.openSession");
  return offered as Listed[];
}

/** A session that was chosen there. */
export async function chosen(name: string): Promise<ChosenSession> {
  return new ChosenSession((await sessionList()).find(({ label }) => label === name)!.info);
}

/** What was set aside, as it is folded into the tree; waits until that many are there. */
export async function branches(running: Running, count = 1): Promise<Row[]> {
  return vi.waitFor(async () => {
    const top = await running.rows("checkpoints");
    const inside = await Promise.all(top.filter(({ item }) => item.contextValue === "checkpoint").map(({ node }) => running.rows("checkpoints", node)));
    const found = [...top, ...inside.flat()].filter(({ item }) => item.contextValue === "timeline");
    if (found.length !== count) {
      throw new Error(`${String(found.length)} branches, not ${String(count)}: ${labels(found).join("; ")}`);
    }
    return found;
  }, { timeout: 10_000 });
}

/** Another process on the same store: an agent in a terminal. */
export function agent(running: Running): Promise<TimeleapClient> {
  const [command, ...args] = COMMAND;
  return TimeleapClient.start(
    { command: command!, args },
    { initialize: { clientInfo: { name: "agent" }, initializationOptions: { home: running.home } }, onLog: () => undefined },
  );
}

/** Marks every answer as one of a standby, as long as `answers` says so; which were `asked` for. Until mocks are restored. */
export function answersOfStandby(): { answers: boolean; readonly asked: string[] } {
  const send = Object.getOwnPropertyDescriptor(TimeleapClient.prototype, "request")!.value as (this: TimeleapClient, method: string, params: object) => Promise<object>;
  const standby = { answers: true, asked: [] as string[] };
  vi.spyOn(TimeleapClient.prototype, "request").mockImplementation(async function (this: TimeleapClient, method: string, params: object) {
    standby.asked.push(method);
    const stale = standby.answers;
    const result = await send.call(this, method, params);
    return stale ? { ...result, stale: true } : result;
  } as never);
  return standby;
}
