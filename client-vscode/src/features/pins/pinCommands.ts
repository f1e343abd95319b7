/** Pins: texts that no compaction of a session may lose. */

import * as vscode from "vscode";
import type { Session } from "../../core/sessions/session.js";
import { exact, oneLine } from "../../shared/text/format.js";
import { sayInformation } from "../../shared/text/say.js";
import { titleOf, verbOf } from "../../shared/text/titles.js";
import type { Handlers, Workbench } from "../../core/commands/register.js";
import { report } from "../../core/commands/report.js";
import { requireTrust, shownSession, writableSession } from "../../core/commands/targets.js";
import { headed } from "../../shared/text/detail.js";

export function pinCommands(bench: Workbench): Handlers {
  return {
    managePins: (given) => (isPiece(given) ? pinGiven(bench, given) : managePins(bench)),
  };
}

async function pinGiven(bench: Workbench, { session: id, text }: Piece): Promise<void> {
  requireTrust();
  await bench.sessions.withOpen(id, (session) => pin(bench, session, text));
}

async function pinTyped(bench: Workbench): Promise<void> {
  requireTrust();
  const session = writableSession(bench.sessions);
  const text = await vscode.window.showInputBox({
    title: vscode.l10n.t("Pin another text…"),
  });
  if (text !== undefined && text.trim() !== "") {
    await pin(bench, session, text);
  }
}

interface Piece {
  readonly session: string;
  readonly text: string;
}

/** Given by the page of a conversation. */
function isPiece(given: unknown): given is Piece {
  const { session, text } = (given ?? {}) as Partial<Record<keyof Piece, unknown>>;
  return typeof session === "string" && typeof text === "string";
}

async function pin(bench: Workbench, session: Session, given: string): Promise<void> {
  const text = given.trim();
  const pins = await change(session, (before) => (before.includes(text) ? [...before] : [...before, text]));
  say(bench, vscode.l10n.t("Pinned. No compaction of “{0}” loses it; pins now: {1}.", session.name, exact(pins.length)), titleOf("managePins"), async () => {
    await vscode.commands.executeCommand("timeleap.managePins");
  });
}

async function managePins(bench: Workbench): Promise<void> {
  const session = shownSession(bench.sessions);
  const { pins = [] } = await session.request("session/getState", {});
  const items = [
    ...(session.writable ? [{ label: `$(add) ${vscode.l10n.t("Pin another text…")}`, pin: undefined }] : []),
    ...pins.map((one) => ({ label: `$(trash) ${oneLine(one)}`, pin: one })),
  ];
  const chosen = await vscode.window.showQuickPick(items, {
    title: headed(verbOf("managePins"), session.name),
  });
  if (!chosen) {
    return;
  }
  const writable = writableSession(bench.sessions);
  if (chosen.pin === undefined) {
    await pinTyped(bench);
    return;
  }
  await remove(bench, writable, chosen.pin);
}

async function remove(bench: Workbench, session: Session, text: string): Promise<void> {
  let place = -1;
  await change(session, (before) => {
    place = before.indexOf(text);
    return before.filter((one) => one !== text);
  });
  say(bench, vscode.l10n.t("No longer pinned: {0}", oneLine(text, 60)), titleOf("undo"), async () => {
    await change(session, (before) => (before.includes(text) ? [...before] : before.toSpliced(Math.max(0, place), 0, text)));
  });
}

/** All pins are set at once, so those in force are asked for first: others may have pinned something meanwhile. */
async function change(session: Session, to: (before: readonly string[]) => string[]): Promise<string[]> {
  const { pins = [] } = await session.request("session/getState", {});
  return (await session.request("context/setPins", { pins: to(pins) })).pins;
}

/** Nobody waits for the answer. */
function say(bench: Workbench, message: string, button: string, run: () => Promise<void>): void {
  void sayInformation(message, button).then(async (chosen) => {
    try {
      if (chosen === button) {
        await run();
      }
    } catch (error) {
      await report(error, bench);
    }
  });
}
