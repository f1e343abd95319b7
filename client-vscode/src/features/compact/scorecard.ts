/** What a compaction keeps and what it loses. */

import * as vscode from "vscode";
import type { CompactResult, FactTally, Scorecard } from "timeleap-client";
import { exact, listed, messages, oneLine, tokens } from "../../shared/text/format.js";
import type { Sheet, SheetBlock } from "../../shared/sheet.js";
import { headed } from "../../shared/text/detail.js";

/** A preview of a compaction, or the report of one that was done. */
export function compactionReport(result: CompactResult): Sheet {
  const { scorecard, pins, summary } = result;
  return {
    title: vscode.l10n.t("What Is Kept"),
    blocks: [
      { kind: "list", items: numbersOf(result) },
      ...(scorecard ? [table(scorecard), ...losses(scorecard)] : []),
      ...(pins ? [pinned(pins.kept + pins.added.length, pins.added)] : []),
      { kind: "markdown", text: (summary ?? "").trimEnd() },
    ],
  };
}

/** How much becomes how much. */
export function numbersOf({ removedMessages, preservedMessages, tokenCountBefore, tokenCountAfter }: CompactResult): string[] {
  return [
    vscode.l10n.t("{0} become one summary, {1} stay as they are.", messages(removedMessages), messages(preservedMessages)),
    `${tokens(tokenCountBefore)} → ${tokens(tokenCountAfter)}`,
  ];
}

/** The same in one line; undefined: nothing was found that could be lost. */
export function scoreLine({ scorecard, pins }: Pick<CompactResult, "scorecard" | "pins">): string | undefined {
  const scores = (scorecard ? rowsOf(scorecard) : [])
    .filter(([, { found }]) => found > 0)
    .map(([name, { found, kept }]) => `${name} ${exact(kept)} / ${exact(found)}`);
  const held = pins ? [`${vscode.l10n.t("Pinned texts")} ${exact(pins.kept + pins.added.length)}`] : [];
  const all = [...scores, ...held];
  return all.length === 0 ? undefined : headed(vscode.l10n.t("Kept"), listed(all));
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
  const head = ["", vscode.l10n.t("Found"), vscode.l10n.t("Kept"), vscode.l10n.t("Lost")];
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
    return [{ kind: "list", title: headed(vscode.l10n.t("Lost"), name), items: [...lost.map((one) => oneLine(one, 300)), ...rest] }];
  });
}

/** The pins that the summary had lost, which were put behind it. */
function pinned(count: number, added: readonly string[]): SheetBlock {
  return { kind: "list", title: headed(vscode.l10n.t("Pinned texts"), exact(count)), items: [...added.map((one) => oneLine(one, 300))] };
}
