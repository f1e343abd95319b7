/** What a compaction keeps and what it loses. */

import * as vscode from "vscode";
import type { CompactResult, FactTally, Scorecard } from "timeleap-client";
import { exact, messages, oneLine, tokens } from "../../shared/text/format.js";
import type { Sheet, SheetBlock } from "../../shared/sheet.js";

/** A preview of a compaction, or the report of one that was done. */
export function compactionReport(result: CompactResult, done: boolean): Sheet {
  const { scorecard, pins, summary } = result;
  return {
    title: done ? vscode.l10n.t("What Was Kept") : vscode.l10n.t("What the compaction would keep"),
    blocks: [
      { kind: "list", items: numbersOf(result) },
      ...(scorecard ? [table(scorecard), ...losses(scorecard)] : []),
      ...(pins ? [pinned(pins.kept, pins.added)] : []),
      { kind: "markdown", title: vscode.l10n.t("The summary"), text: (summary ?? "").trimEnd() },
    ],
  };
}

/** How much becomes how much. */
export function numbersOf({ removedMessages, preservedMessages, tokenCountBefore, tokenCountAfter }: CompactResult): string[] {
  return [
    vscode.l10n.t("{0} become one summary, {1} stay as they are.", messages(removedMessages), messages(preservedMessages)),
    vscode.l10n.t("{0} become {1}.", tokens(tokenCountBefore), tokens(tokenCountAfter)),
  ];
}

/** The same in one line; undefined: nothing was found that could be lost. */
export function scoreLine({ scorecard, pins }: Pick<CompactResult, "scorecard" | "pins">): string | undefined {
  const scores = (scorecard ? rowsOf(scorecard) : [])
    .filter(([, { found }]) => found > 0)
    .map(([name, { found, kept }]) => vscode.l10n.t("{0}: {1} of {2}", name, exact(kept), exact(found)));
  const held = pins ? [vscode.l10n.t("{0}: {1} of {2}", vscode.l10n.t("Pinned texts"), exact(pins.kept + pins.added.length), exact(pins.kept + pins.added.length))] : [];
  const all = [...scores, ...held];
  return all.length === 0 ? undefined : vscode.l10n.t("Still there – {0}.", all.join("; "));
}

/** How a summary begins, in one line. The tags around its sections become their names: `<current_focus>` is "Current focus:". */
export function excerpt(summary: string, length: number): string {
  const named = summary.replace(/^<(\w)(\w*)>$/gm, (_, first: string, rest: string) => `${first.toUpperCase()}${rest.replaceAll("_", " ")}:`);
  return oneLine(named.replace(/^<\/\w+>$/gm, ""), length);
}

type Row = readonly [name: string, tally: FactTally];

function rowsOf({ paths, identifiers, errors, todos, constraints }: Scorecard): Row[] {
  return [
    [vscode.l10n.t("File paths"), paths],
    [vscode.l10n.t("Names in code"), identifiers],
    [vscode.l10n.t("Error messages"), errors],
    [vscode.l10n.t("To-dos"), todos],
    [vscode.l10n.t("What you demanded"), constraints],
  ];
}

function table(scorecard: Scorecard): SheetBlock {
  const head = [vscode.l10n.t("What"), vscode.l10n.t("Found"), vscode.l10n.t("Kept"), vscode.l10n.t("Lost")];
  return { kind: "table", head, rows: rowsOf(scorecard).map(([name, { found, kept }]) => [name, exact(found), exact(kept), exact(found - kept)]) };
}

/** The wire names the first of what is lost; how many more there are can be told. */
function losses(scorecard: Scorecard): SheetBlock[] {
  return rowsOf(scorecard).flatMap(([name, { found, kept, lost }]): SheetBlock[] => {
    if (lost.length === 0) {
      return [];
    }
    const left = found - kept - lost.length;
    const rest = left > 0 ? [vscode.l10n.t("… and {0} more", exact(left))] : [];
    return [{ kind: "list", title: vscode.l10n.t("Lost: {0}", name), items: [...lost.map((one) => oneLine(one, 300)), ...rest] }];
  });
}

function pinned(kept: number, added: readonly string[]): SheetBlock {
  const inside = vscode.l10n.t("{0} stand in the summary by themselves, {1} were put behind it.", exact(kept), exact(added.length));
  return { kind: "list", title: vscode.l10n.t("Pinned texts"), items: [inside, ...added.map((one) => oneLine(one, 300))] };
}
