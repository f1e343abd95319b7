/** What the page says, in the editor's language; holes are filled in the page. */

import * as vscode from "vscode";
import { titleOf, verbOf } from "../../shared/text/titles.js";

/** `make` is called when a page is opened: the language is known by then. */
export function words() {
  return {
    conversation: vscode.l10n.t("Conversation"),
    overview: vscode.l10n.t("Overview"),
    messages: counted(vscode.l10n.t("1 message | {0} messages")),
    tokens: counted(vscode.l10n.t("1 token | {0} tokens")),
    checkpoints: counted(vscode.l10n.t("1 checkpoint | {0} checkpoints")),
    present: vscode.l10n.t("Present"),
    setAside: vscode.l10n.t("(set aside)"),
    restore: vscode.l10n.t("Restore"),
    toPresent: vscode.l10n.t("Show the Present"),
    user: vscode.l10n.t("User"),
    assistant: vscode.l10n.t("Assistant"),
    system: vscode.l10n.t("System"),
    tool: vscode.l10n.t("Tool"),
    loading: vscode.l10n.t("Loading…"),
    unreadable: vscode.l10n.t("This cannot be shown."),
    empty: vscode.l10n.t("No messages yet. What is written appears here."),
    noText: vscode.l10n.t("(empty)"),
    thought: vscode.l10n.t("Thought"),
    picture: vscode.l10n.t("Picture"),
    cut: vscode.l10n.t("The first {0} of {1} characters"),
    readOn: vscode.l10n.t("Read On"),
    changedFiles: counted(vscode.l10n.t("1 file changed | {0} files changed")),
    filesOfTurn: vscode.l10n.t("Changed Files"),
    openDiff: vscode.l10n.t("Open in the Diff Editor"),
    sameText: vscode.l10n.t("Its text is the same."),
    fileAdded: vscode.l10n.t("added"),
    fileModified: vscode.l10n.t("changed"),
    fileDeleted: vscode.l10n.t("deleted"),
    fileType: vscode.l10n.t("became another kind of file"),
    fileMode: vscode.l10n.t("other permissions"),
    showMore: vscode.l10n.t("Show more ({0})"),
    showLess: vscode.l10n.t("Show less"),
    failed: vscode.l10n.t("failed"),
    failures: vscode.l10n.t("{0} failed"),
    noResult: vscode.l10n.t("no result"),
    result: vscode.l10n.t("Result"),
    checkpoint: vscode.l10n.t("Checkpoint {0}"),
    noCheckpoints: vscode.l10n.t("No checkpoints"),
    beginning: vscode.l10n.t("Beginning"),
    olderCheckpoint: vscode.l10n.t("Checkpoint Before"),
    newerCheckpoint: vscode.l10n.t("Checkpoint After"),
    previous: vscode.l10n.t("Previous"),
    next: vscode.l10n.t("Next"),
    actions: vscode.l10n.t("More Actions"),
    revert: titleOf("restore"),
    again: vscode.l10n.t("Edit and Go Again…"),
    fork: titleOf("fork"),
    pin: vscode.l10n.t("Pin"),
    markdown: vscode.l10n.t("Copy as Markdown"),
    json: vscode.l10n.t("Copy as JSON"),
    compare: vscode.l10n.t("Compare with Present"),
    note: vscode.l10n.t("Write a Note to Here…"),
    undo: titleOf("undo"),
    redo: titleOf("redo"),
    search: verbOf("search"),
    nothingFound: vscode.l10n.t("Nothing found"),
    close: vscode.l10n.t("Close"),
    curve: vscode.l10n.t("Tokens"),
    compareWith: titleOf("compare"),
    compareFrom: vscode.l10n.t("Compare from Here"),
    compareTo: vscode.l10n.t("Compare “{0}” with This"),
    common: vscode.l10n.t("The same in both: {0}."),
    onlyIn: vscode.l10n.t("Only in {0}: {1}"),
    andMore: vscode.l10n.t("… and {0} more"),
    newMessages: vscode.l10n.t("Newest Message"),
  };
}

function counted(text: string): { readonly one: string; readonly many: string } {
  const [one = "", many = ""] = text.split(" | ");
  return { one, many };
}

export type Words = ReturnType<typeof words>;

/** What is counted: a text for one, another for more. */
export type Counted = { [Name in keyof Words]: Words[Name] extends string ? never : Name }[keyof Words];
export type Said = Exclude<keyof Words, Counted>;

/** What a page that is a file of its own says beside that: what set each timeline aside, and that something is missing. */
export function wordsOfFile() {
  return {
    revert: vscode.l10n.t("Before a restore"),
    clear: vscode.l10n.t("Before clearing"),
    compact: vscode.l10n.t("Before a compaction"),
    fold: vscode.l10n.t("Before a fold"),
    restore: vscode.l10n.t("Before a restore"),
    dmail: vscode.l10n.t("Before going back"),
    external: vscode.l10n.t("Before going back"),
    import: vscode.l10n.t("Earlier log"),
    unknown: vscode.l10n.t("Earlier log"),
    broken: vscode.l10n.t("The data of this page is damaged; it may have been cut short on its way here."),
  };
}

export type WordsOfFile = ReturnType<typeof wordsOfFile>;
