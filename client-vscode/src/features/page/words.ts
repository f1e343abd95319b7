/** What the page says, in the editor's language; holes are filled in the page. */

import * as vscode from "vscode";

/** `make` is called when a page is opened: the language is known by then. */
export function words() {
  return {
    conversation: vscode.l10n.t("Conversation"),
    overview: vscode.l10n.t("Overview"),
    messages: counted(vscode.l10n.t("1 message | {0} messages")),
    tokens: counted(vscode.l10n.t("1 token | {0} tokens")),
    checkpoints: counted(vscode.l10n.t("1 checkpoint | {0} checkpoints")),
    upToHere: vscode.l10n.t("{0} up to here"),
    present: vscode.l10n.t("Present"),
    setAside: vscode.l10n.t("(set aside)"),
    restore: vscode.l10n.t("Restore"),
    toPresent: vscode.l10n.t("Show the Present"),
    user: vscode.l10n.t("User"),
    assistant: vscode.l10n.t("Assistant"),
    system: vscode.l10n.t("System"),
    tool: vscode.l10n.t("Tool"),
    message: vscode.l10n.t("Message {0}, {1}"),
    loading: vscode.l10n.t("Loading…"),
    unreadable: vscode.l10n.t("This message cannot be read."),
    empty: vscode.l10n.t("No messages yet. What is written appears here."),
    noText: vscode.l10n.t("(empty)"),
    thought: vscode.l10n.t("Thought"),
    picture: vscode.l10n.t("Picture"),
    brokenPicture: vscode.l10n.t("This picture cannot be shown."),
    part: vscode.l10n.t("Part of the kind “{0}”, shown as text"),
    cut: vscode.l10n.t("The first {0} of {1} characters"),
    readOn: vscode.l10n.t("Read On"),
    systemPrompt: vscode.l10n.t("System prompt"),
    changedFiles: counted(vscode.l10n.t("1 file changed | {0} files changed")),
    manyFiles: vscode.l10n.t("More than {0} files changed"),
    filesOfTurn: vscode.l10n.t("Changed Files"),
    showDiff: vscode.l10n.t("Show what changed in {0}"),
    openDiff: vscode.l10n.t("Open in the Diff Editor"),
    binaryFile: vscode.l10n.t("This is no text, so its lines are not shown."),
    sameText: vscode.l10n.t("Its text is the same."),
    fileAdded: vscode.l10n.t("added"),
    fileModified: vscode.l10n.t("changed"),
    fileDeleted: vscode.l10n.t("deleted"),
    fileType: vscode.l10n.t("became another kind of file"),
    fileMode: vscode.l10n.t("other permissions"),
    moreFiles: vscode.l10n.t("Show more files ({0})"),
    showLines: vscode.l10n.t("Show {0} lines"),
    showLess: vscode.l10n.t("Show less"),
    moreCalls: vscode.l10n.t("Show more calls ({0})"),
    failed: vscode.l10n.t("failed"),
    noResult: vscode.l10n.t("no result"),
    result: vscode.l10n.t("Result"),
    resultOf: vscode.l10n.t("Result of {0}"),
    edit: vscode.l10n.t("Edit"),
    removedLine: vscode.l10n.t("removed"),
    addedLine: vscode.l10n.t("added"),
    checkpoint: vscode.l10n.t("Checkpoint {0}"),
    noCheckpoints: vscode.l10n.t("No checkpoints"),
    beginning: vscode.l10n.t("Beginning"),
    olderCheckpoint: vscode.l10n.t("Checkpoint Before"),
    newerCheckpoint: vscode.l10n.t("Checkpoint After"),
    position: vscode.l10n.t("Position in the conversation"),
    actions: vscode.l10n.t("More Actions"),
    revert: vscode.l10n.t("Restore to Before This"),
    again: vscode.l10n.t("Edit and Go Again…"),
    fork: vscode.l10n.t("Fork from Here…"),
    pin: vscode.l10n.t("Pin"),
    markdown: vscode.l10n.t("Copy as Markdown"),
    json: vscode.l10n.t("Copy as JSON"),
    compare: vscode.l10n.t("Compare with Present"),
    note: vscode.l10n.t("Write a Note to Here…"),
    undo: vscode.l10n.t("Undo"),
    redo: vscode.l10n.t("Redo"),
    search: vscode.l10n.t("Search"),
    searchHint: vscode.l10n.t("Search the conversation and what was set aside"),
    found: vscode.l10n.t("{0} of {1}"),
    foundMore: vscode.l10n.t("{0} of {1} or more"),
    nothingFound: vscode.l10n.t("Nothing found"),
    previousMatch: vscode.l10n.t("Previous Match"),
    nextMatch: vscode.l10n.t("Next Match"),
    close: vscode.l10n.t("Close"),
    curve: vscode.l10n.t("Tokens along the conversation: at most {0}"),
    branches: vscode.l10n.t("Timelines: where what was set aside leaves the conversation"),
    compareWith: vscode.l10n.t("Compare with…"),
    exported: vscode.l10n.t("This file is all there is: it asks nothing of any network."),
    compareFrom: vscode.l10n.t("Compare from Here"),
    compareTo: vscode.l10n.t("Compare “{0}” with This"),
    comparison: vscode.l10n.t("Comparison: {0} and {1}"),
    common: vscode.l10n.t("The same in both: {0}."),
    onlyIn: vscode.l10n.t("Only in {0}: {1}"),
    andMore: vscode.l10n.t("… and {0} more"),
    tokenChange: vscode.l10n.t("Tokens: {0} to {1}"),
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
    revert: vscode.l10n.t("Before going back"),
    clear: vscode.l10n.t("Before clearing"),
    compact: vscode.l10n.t("Before a compaction"),
    restore: vscode.l10n.t("Before a restore"),
    dmail: vscode.l10n.t("Before a D-Mail"),
    external: vscode.l10n.t("Before its program went back"),
    import: vscode.l10n.t("Imported"),
    unknown: vscode.l10n.t("Earlier log"),
    broken: vscode.l10n.t("The data of this page is damaged; it may have been cut short on its way here."),
    copied: vscode.l10n.t("Copied: message {0}"),
  };
}

export type WordsOfFile = ReturnType<typeof wordsOfFile>;
