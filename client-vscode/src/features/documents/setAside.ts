/** Keeps what is open readable where a conversation goes back: what it has no more is shown from the timeline that has it. */

import * as vscode from "vscode";
import type { ContextDidChange } from "timeleap-client";
import { Disposables } from "../../shared/lifecycle.js";
import type { Session } from "../../core/sessions/session.js";
import type { Sessions } from "../../core/sessions/sessions.js";
import { referenceOf, titleOf, uriOf, type Reference } from "../../shared/reference.js";

interface OpenTab {
  readonly tab: vscode.Tab;
  readonly uri: vscode.Uri;
  readonly reference: Omit<Reference, "title">;
}

export class SetAside extends Disposables {
  /** One change after the other: each finds the tabs as the one before has left them. */
  private working = Promise.resolve();

  constructor(sessions: Sessions) {
    super();
    this.register(sessions.onDidChangeContext(({ session, change }) => this.take(session, change)));
  }

  private take(session: Session, change: ContextDidChange): void {
    const timelineId = "timelineId" in change ? change.timelineId : undefined;
    if (timelineId !== undefined) {
      this.working = this.working.then(() => move(session, timelineId)).catch(() => undefined); // the documents stay as they are
    }
  }
}

async function move(session: Session, timelineId: string): Promise<void> {
  const open = tabsOf(session.id);
  if (open.length === 0) {
    return;
  }
  const { common } = await session.request("context/diff", { from: { timelineId }, to: {}, limit: 1, maxBytes: 1 });
  const gone = await Promise.all(open.map(({ reference }) => isGone(session, reference, common)));
  for (const one of open.filter((_, index) => gone[index] === true)) {
    await replace(one, timelineId);
  }
}

function tabsOf(sessionId: string): OpenTab[] {
  return vscode.window.tabGroups.all
    .flatMap(({ tabs }) => tabs)
    .flatMap((tab) => {
      const uri = tab.input instanceof vscode.TabInputText ? tab.input.uri : undefined;
      const reference = uri && referenceOf(uri);
      return uri && reference?.session === sessionId && reference.timeline === undefined ? [{ tab, uri, reference }] : [];
    });
}

/** Whether the present log has not what a document shows. What reaches to its end goes on with the present. */
async function isGone(session: Session, { selected }: OpenTab["reference"], common: number): Promise<boolean> {
  switch (selected.kind) {
    case "messages":
      return selected.indexes.some((index) => index >= common);
    case "range":
      return selected.to !== undefined && selected.to > common;
    case "checkpoint":
      return session.request("context/getHistory", { checkpointUid: selected.uid, limit: 1 }).then(
        () => false,
        () => true,
      );
  }
}

async function replace({ tab, uri, reference }: OpenTab, timeline: string): Promise<void> {
  const title = vscode.l10n.t("(set aside) {0}", titleOf(uri));
  const selection = vscode.window.visibleTextEditors.find((editor) => editor.document.uri.toString() === uri.toString())?.selection;
  const { viewColumn, activeTab } = tab.group;
  await showIn(viewColumn, uriOf({ ...reference, timeline, title }), { preview: tab.isPreview, ...(selection ? { selection } : {}) });
  // What was in front of it stays in front.
  if (activeTab && activeTab !== tab && activeTab.input instanceof vscode.TabInputText) {
    await showIn(viewColumn, activeTab.input.uri, { preview: activeTab.isPreview });
  }
  await vscode.window.tabGroups.close(tab, true);
}

async function showIn(viewColumn: vscode.ViewColumn, uri: vscode.Uri, options: vscode.TextDocumentShowOptions): Promise<void> {
  await vscode.window.showTextDocument(await vscode.workspace.openTextDocument(uri), { viewColumn, preserveFocus: true, ...options });
}
