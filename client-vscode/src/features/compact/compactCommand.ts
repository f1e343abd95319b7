/** Compaction: an instruction, a dry run that is shown, and only then the real one, with the very summary that was shown. */

import * as vscode from "vscode";
import type { CompactResult } from "timeleap-client";
import { compactionReport, excerpt, numbersOf, scoreLine } from "./scorecard.js";
import type { Session } from "../../core/sessions/session.js";
import { summaryByModel } from "./summaries.js";
import { readSettings } from "../../shared/settings.js";
import { showSheet } from "../../shared/sheet.js";
import { translated } from "../../shared/text/detail.js";
import { messages, tokens } from "../../shared/text/format.js";
import { sayInformation } from "../../shared/text/say.js";
import { withProgress, type Work } from "../../shared/progress.js";
import type { Handlers, Workbench } from "../../core/commands/register.js";
import { Refusal } from "../../core/commands/report.js";
import { writableSession } from "../../core/commands/targets.js";
import { kept, offerUndo } from "../../core/restore/timeTravel.js";
import { titleOf, verbOf } from "../../shared/text/titles.js";

/** How much of the summary the question shows. */
const EXCERPT = 600;

export function compactCommand(bench: Workbench): Handlers {
  return { compact: () => compact(bench) };
}

async function compact(bench: Workbench): Promise<void> {
  const session = writableSession(bench.sessions);
  const instruction = await vscode.window.showInputBox({
    title: titleOf("compact"),
    prompt: vscode.l10n.t("What should the summary pay attention to? It may be empty"),
  });
  if (instruction === undefined) {
    return;
  }
  const plan = await withProgress(vscode.l10n.t("Summarising…"), (work) => dryRun(bench, session, instruction.trim(), work));
  if (!plan.compacted || plan.summary === undefined) {
    throw new Refusal(translated(vscode.l10n.t("Nothing was compacted."), plan.reason ?? "there is no summary"));
  }
  if (await agreed(session, plan)) {
    const { head, summary } = plan;
    const done = await withProgress(titleOf("compact"), ({ options }) =>
      session.request("context/compact", { summary, expectedHead: head }, options),
    );
    const message = vscode.l10n.t("Compacted: {0} became a summary; {1} now.", messages(done.removedMessages), tokens(done.tokenCountAfter));
    const title = vscode.l10n.t("What Is Kept");
    offerUndo(bench, session, done, message, { title, run: () => showSheet(session.id, compactionReport(done)) });
  }
}

async function dryRun(bench: Workbench, session: Session, instruction: string, { token, options }: Work): Promise<CompactResult> {
  const summary = readSettings().useLanguageModel ? await byModel(bench, session, instruction, token) : undefined;
  const how = summary === undefined ? (instruction === "" ? {} : { customInstruction: instruction }) : { summary };
  return session.request("context/compact", { ...how, dryRun: true }, options);
}

/** A model that is not to be had is no reason not to compact. */
async function byModel(bench: Workbench, session: Session, instruction: string, token: vscode.CancellationToken): Promise<string | undefined> {
  try {
    return await summaryByModel(session, instruction, token);
  } catch (error) {
    if (token.isCancellationRequested) {
      throw new vscode.CancellationError();
    }
    bench.log.warn(`no summary by a language model: ${String(error)}`);
    return undefined;
  }
}

async function agreed(session: Session, plan: CompactResult): Promise<boolean> {
  const compactButton = verbOf("compact");
  const lookButton = vscode.l10n.t("What Is Kept");
  const score = scoreLine(plan);
  const [message = "", ...numbers] = numbersOf(plan);
  const facts = [...numbers, ...(score === undefined ? [] : [score]), kept()].join("\n");
  const detail = `${facts}\n\n${excerpt(plan.summary ?? "", EXCERPT)}`;
  const chosen = await vscode.window.showWarningMessage(message, { modal: true, detail }, compactButton, lookButton);
  if (chosen !== lookButton) {
    return chosen === compactButton;
  }
  await showSheet(session.id, compactionReport(plan));
  return (await sayInformation(message, compactButton)) === compactButton;
}
