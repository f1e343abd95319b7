/** Errors in words, with the next step as a button. */

import * as vscode from "vscode";
import { isTimeleapError, messageOf } from "../../shared/errors.js";
import { ServerFailure } from "../server/failure.js";
import { stepsAfter, wordsOf, type Step, type Words } from "../../shared/text/errorWords.js";
import { sayError, sayWarning } from "../../shared/text/say.js";
import type { Workbench } from "./register.js";

/** What a command throws when the user must know something and nothing is broken; with what can be done about it. */
export class Refusal extends Error {
  override readonly name = "Refusal";
  readonly steps: readonly Step[];

  constructor(message: string, ...steps: readonly Step[]) {
    super(message);
    this.steps = steps;
  }
}

/** Where a command has nothing to choose from. @param title of the command */
export function thereIsNone(title: string): Refusal {
  return new Refusal(vscode.l10n.t("There is nothing for “{0}”.", title.replace(/…$/u, "")));
}

/** Shows an error. Resolves when the user has chosen a step or looked away. */
export async function report(error: unknown, bench: Pick<Workbench, "log" | "views" | "sessions">): Promise<void> {
  if (isCancellation(error)) {
    return;
  }
  const { message, steps } = wordsFor(error);
  bench.log.error(messageOf(error));
  if (error instanceof ServerFailure ? error.told : error === bench.sessions.problem?.cause) {
    await vscode.commands.executeCommand("timeleap.checkpoints.focus"); // the view says it, with what can be done
    return;
  }
  if (isStale(error)) {
    await bench.views.refresh().catch(() => undefined);
  }
  const titles = steps.map((step) => step.title);
  const chosen = error instanceof Refusal ? await sayWarning(message, ...titles) : await sayError(message, ...titles);
  const step = steps.find(({ title }) => title === chosen);
  if (step) {
    await vscode.commands.executeCommand(step.command, ...(step.arguments ?? []));
  }
}

/** The request was made on what is no longer so. */
export function isStale(error: unknown): boolean {
  return (["contentModified", "checkpointNotFound", "timelineNotFound"] as const).some((kind) => isTimeleapError(error, kind));
}

export function wordsFor(error: unknown): Words {
  if (error instanceof Refusal) {
    return error;
  }
  if (error instanceof ServerFailure) {
    return { message: error.message, steps: stepsAfter(error.kind) };
  }
  return wordsOf(error);
}

function isCancellation(error: unknown): boolean {
  return error instanceof vscode.CancellationError || isTimeleapError(error, "cancelled");
}
