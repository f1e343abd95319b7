/** The read-only documents of the `timeleap` scheme. */

import * as vscode from "vscode";
import type { GetHistoryParams, HistoryMessage } from "timeleap-client";
import { Disposables } from "../lifecycle.js";
import { messageOf } from "../server/errors.js";
import type { Session } from "../sessions/session.js";
import type { Sessions } from "../sessions/sessions.js";
import { exact } from "../text/format.js";
import { markdownOf } from "./markdown.js";
import { referenceOf, SCHEME, uriOf, type Reference, type Selected } from "./reference.js";

/** What one document shows at most; the rest is for the export. */
export const MOST = 2_000;
/** Messages a request asks for; the server ends a page earlier where they are long. */
const PAGE = 500;
/** Milliseconds without news after which documents follow the session they show. */
const SETTLE = 500;

export class Documents extends Disposables implements vscode.TextDocumentContentProvider {
  private readonly changed = this.register(new vscode.EventEmitter<vscode.Uri>());
  readonly onDidChange = this.changed.event;
  /** Texts that are nowhere else, by URI; they last as long as the window. */
  private readonly texts = new Map<string, string>();
  private following: vscode.Disposable | undefined;
  private settling: NodeJS.Timeout | undefined;

  constructor(private readonly sessions: Sessions) {
    super();
    this.register(vscode.workspace.registerTextDocumentContentProvider(SCHEME, this));
    this.register(
      sessions.onDidChangeShown((session) => {
        this.following?.dispose();
        this.following = session?.onDidChange((event) => event !== "state" && this.follow(session.id));
      }),
    );
  }

  /** Shows a document beside the tree, which keeps the focus. */
  async show(reference: Reference): Promise<void> {
    const document = await vscode.workspace.openTextDocument(uriOf(reference));
    await vscode.window.showTextDocument(document, { preview: true, preserveFocus: true });
  }

  /** Shows a text that is nowhere else. */
  async showText(title: string, text: string): Promise<void> {
    const uri = vscode.Uri.from({ scheme: SCHEME, path: `/${title}.md`, query: String(this.texts.size) });
    this.texts.set(uri.toString(), text);
    await vscode.window.showTextDocument(await vscode.workspace.openTextDocument(uri), { preview: true });
  }

  /** Never fails: what goes wrong is what the document says. */
  async provideTextDocumentContent(uri: vscode.Uri, token: vscode.CancellationToken): Promise<string> {
    const reference = referenceOf(uri);
    if (!reference) {
      return this.texts.get(uri.toString()) ?? vscode.l10n.t("This is not a document of Timeleap.");
    }
    try {
      const session = this.sessions.get(reference.session) ?? (await this.sessions.attach({ sessionId: reference.session, create: false }));
      const { entries, more } = await read(session, reference, token);
      return reference.format === "json" ? asJson(entries, reference.selected) : asMarkdown(entries, more, reference.selected);
    } catch (error) {
      return vscode.l10n.t("This cannot be shown: {0}", messageOf(error));
    }
  }

  override dispose(): void {
    this.following?.dispose();
    clearTimeout(this.settling);
    super.dispose();
  }

  /** What reaches to the end of the live log grows with it; what was named by its index stays as it was opened. */
  private follow(sessionId: string): void {
    clearTimeout(this.settling);
    this.settling = setTimeout(() => {
      for (const { uri } of vscode.workspace.textDocuments) {
        const reference = referenceOf(uri);
        const open = reference?.selected.kind === "checkpoint" || (reference?.selected.kind === "range" && reference.selected.to === undefined);
        if (reference?.session === sessionId && reference.timeline === undefined && open) {
          this.changed.fire(uri);
        }
      }
    }, SETTLE);
  }
}

interface Content {
  readonly entries: readonly HistoryMessage[];
  /** Whether there are more than a document shows. */
  readonly more: boolean;
}

async function read(session: Session, { selected, timeline }: Omit<Reference, "title">, token: vscode.CancellationToken): Promise<Content> {
  const of = timeline === undefined ? {} : { timelineId: timeline };
  if (selected.kind === "messages") {
    const pages = selected.indexes.map((index) => session.request("context/getHistory", { from: index, to: index + 1, ...of }));
    return { entries: (await Promise.all(pages)).flatMap(({ messages }) => messages), more: false };
  }
  const { kind, ...range } = selected;
  const first = kind === "checkpoint" ? { checkpointUid: selected.uid } : (range as { from: number; to?: number });
  return gather(session, { ...first, ...of }, MOST, () => token.isCancellationRequested);
}

/** Reads pages until there are no more, or as many messages as are wanted. */
export async function gather(
  session: Session,
  first: Omit<GetHistoryParams, "sessionId">,
  most: number,
  stopped: () => boolean,
): Promise<Content> {
  const entries: HistoryMessage[] = [];
  const of = first.timelineId === undefined ? {} : { timelineId: first.timelineId };
  let params: Omit<GetHistoryParams, "sessionId"> | undefined = first;
  while (params && entries.length < most) {
    if (stopped()) {
      throw new vscode.CancellationError();
    }
    const { messages, nextCursor }: { messages: HistoryMessage[]; nextCursor?: string } = await session.request("context/getHistory", {
      ...params,
      limit: Math.min(PAGE, most - entries.length),
    });
    entries.push(...messages);
    params = nextCursor === undefined ? undefined : { cursor: nextCursor, ...of };
  }
  return { entries, more: params !== undefined };
}

function asMarkdown(entries: readonly HistoryMessage[], more: boolean, selected: Selected): string {
  const earlier = selected.kind === "range" && selected.from > 0 ? `*${vscode.l10n.t("… {0} messages before", exact(selected.from))}*\n\n` : "";
  const rest = more ? `\n*${vscode.l10n.t("There is more than a document shows. Export the transcript to have all of it.")}*\n` : "";
  return earlier + (markdownOf(entries) || `*${vscode.l10n.t("No messages")}*\n`) + rest;
}

function asJson(entries: readonly HistoryMessage[], selected: Selected): string {
  const messages = entries.map(({ message }) => message);
  return `${JSON.stringify(selected.kind === "messages" && messages.length === 1 ? messages[0] : messages, null, 2)}\n`;
}
