/** The read-only documents of the `timeleap` scheme. */

import * as vscode from "vscode";
import type { GetHistoryParams, HistoryMessage } from "timeleap-client";
import { Disposables } from "../../shared/lifecycle.js";
import { isTimeleapError, messageOf } from "../../core/server/errors.js";
import type { Session } from "../../core/sessions/session.js";
import type { Held, Sessions } from "../../core/sessions/sessions.js";
import { withDetail } from "../../shared/text/detail.js";
import { messages } from "../../shared/text/format.js";
import { elementsOf, indented, memberOf } from "../../shared/text/json.js";
import { rangeAt } from "../../shared/text/position.js";
import { markdownOf, messageAsMarkdown, originalOf, rangeInMarkdown } from "../../shared/text/markdown.js";
import { fileName, referenceOf, SCHEME, uriOf, type Reference, type Selected } from "../../shared/reference.js";

/** What one document shows at most; the rest is for the export. */
export const MOST = 2_000;
/** Messages a request asks for; the server ends a page earlier where they are long. */
const PAGE = 500;
/** Milliseconds without news after which documents follow the session they show. */
const SETTLE = 500;
/** What may have been escaped. */
const ESCAPED = /&(?:lt|#\d+);/;

/** Of what nobody cancels. */
const NEVER: vscode.CancellationToken = { isCancellationRequested: false, onCancellationRequested: () => new vscode.Disposable(() => undefined) };

export class Documents extends Disposables implements vscode.TextDocumentContentProvider {
  private readonly changed = this.register(new vscode.EventEmitter<vscode.Uri>());
  readonly onDidChange = this.changed.event;
  /** Texts that are nowhere else, by URI; they last as long as the window, or until something is redacted in their session. */
  private readonly texts = new Map<string, OwnText>();
  /** What open documents say, by URI: a conversation that goes back takes nothing away that somebody reads. */
  private readonly readable = new Map<string, string>();
  /** Sessions that have documents: what happens to them is heard, open in this window or not. */
  private readonly followed = new Map<string, Followed>();
  /** By session. */
  private readonly settling = new Map<string, NodeJS.Timeout>();

  constructor(private readonly sessions: Sessions) {
    super();
    this.register(vscode.workspace.registerTextDocumentContentProvider(SCHEME, this));
    this.register(sessions.onDidChangeContext(({ change }) => this.follow(change.sessionId, change.kind === "redacted")));
    this.register(vscode.workspace.onDidCloseTextDocument(({ uri }) => this.closed(uri)));
  }

  /** Shows a document beside the tree, which keeps the focus. */
  async show(reference: Reference): Promise<void> {
    const document = await vscode.workspace.openTextDocument(uriOf(reference));
    await vscode.window.showTextDocument(document, { preview: true, preserveFocus: true });
  }

  /** The conversation as it grows: all of it, or of a long one the newest part. */
  async showConversation(session: Session): Promise<void> {
    const from = Math.max(0, session.state.context.messageCount - MOST);
    await this.show({ session: session.id, selected: { kind: "range", from }, format: "md", title: session.name });
  }

  /** Shows a message with a part of its text selected, counted as searches do. */
  async showMatch(reference: Reference, range: readonly [number, number]): Promise<void> {
    const document = await vscode.workspace.openTextDocument(uriOf(reference));
    const [entry] = (await this.read(reference, NEVER)).entries;
    const selection = entry && rangeAt(messageAsMarkdown(entry.index, entry.message), rangeInMarkdown(entry.index, entry.message, range));
    await vscode.window.showTextDocument(document, { preview: true, ...(selection ? { selection } : {}) });
  }

  /** Shows a text that is nowhere else. */
  async showText(title: string, text: string, { format = "md", sessionId }: TextOptions = {}): Promise<void> {
    const uri = vscode.Uri.from({ scheme: SCHEME, path: `/${fileName(title)}.${format}`, query: String(this.texts.size) });
    this.texts.set(uri.toString(), { uri, text, sessionId });
    if (sessionId !== undefined) {
      await this.hear(sessionId, uri);
    }
    const document = await vscode.workspace.openTextDocument(uri);
    // Our own kind of plain text has long lines wrapped: nothing that matters stands out of sight.
    await vscode.window.showTextDocument(format === "txt" ? await vscode.languages.setTextDocumentLanguage(document, "timeleap-text") : document, { preview: true });
  }

  /** What a part of a document says, without what is escaped there for Markdown. */
  async originalText(document: vscode.TextDocument, range: vscode.Range): Promise<string> {
    const reference = referenceOf(document.uri);
    const asShown = document.getText(range);
    if (reference?.format !== "md" || !ESCAPED.test(asShown)) {
      return asShown;
    }
    const { entries, more } = await this.read(reference, NEVER);
    const whole = asMarkdown(entries, more, reference.selected);
    const before = whole.indexOf(markdownOf(entries));
    const [start, end] = [document.offsetAt(range.start), document.offsetAt(range.end)];
    // Not where the editor has changed the ends of lines, or the conversation has gone on.
    return whole.slice(start, end) === asShown ? originalOf(entries, start - before, end - before) : asShown;
  }

  /** Never fails: what goes wrong is what the document says. */
  async provideTextDocumentContent(uri: vscode.Uri, token: vscode.CancellationToken): Promise<string> {
    const reference = referenceOf(uri);
    if (!reference) {
      return this.texts.get(uri.toString())?.text ?? vscode.l10n.t("This is not a document of Timeleap.");
    }
    try {
      await this.hear(reference.session, uri);
      const { entries, more, raw } = await this.read(reference, token);
      const text = reference.format === "json" ? asJson(raw, reference.selected) : asMarkdown(entries, more, reference.selected);
      this.readable.set(uri.toString(), text);
      return text;
    } catch (error) {
      const before = isTimeleapError(error, "checkpointNotFound") ? this.readable.get(uri.toString()) : undefined;
      return before ?? withDetail(vscode.l10n.t("This cannot be shown."), messageOf(error));
    }
  }

  override dispose(): void {
    this.settling.forEach(clearTimeout);
    super.dispose();
  }

  /** Has a session open, listed as that or not, as long as it has a document. @throws where it cannot be opened */
  private async hear(sessionId: string, uri: vscode.Uri): Promise<void> {
    const known = this.followed.get(sessionId);
    const followed = known ?? { uris: new Set<string>(), held: this.sessions.hold(sessionId) };
    followed.uris.add(uri.toString());
    this.followed.set(sessionId, followed);
    try {
      await followed.held;
    } catch (error) {
      if (this.followed.get(sessionId) === followed) {
        this.followed.delete(sessionId); // the next one tries again
      }
      throw error;
    }
  }

  private closed(uri: vscode.Uri): void {
    this.readable.delete(uri.toString());
    const sessionId = referenceOf(uri)?.session ?? this.texts.get(uri.toString())?.sessionId;
    const followed = sessionId === undefined ? undefined : this.followed.get(sessionId);
    if (sessionId !== undefined && followed?.uris.delete(uri.toString()) === true && followed.uris.size === 0) {
      this.followed.delete(sessionId);
      void followed.held.then(({ release }) => release()).catch(() => undefined); // the server has ended: so has that
    }
  }

  /** Of a session that is not open, it is opened for that long. */
  private read(reference: Omit<Reference, "title">, token: vscode.CancellationToken): Promise<Content> {
    return this.sessions.withOpen(reference.session, (session) => read(session, reference, token));
  }

  /**
   * What reaches to the end of the live log grows with it; what was named by its index stays as it was opened. What was redacted
   * leaves every document at once, whatever it shows.
   */
  private follow(sessionId: string, redacted: boolean): void {
    clearTimeout(this.settling.get(sessionId));
    if (redacted) {
      this.readable.clear();
      this.withdrawTexts(sessionId);
      for (const { uri } of vscode.workspace.textDocuments) {
        if (referenceOf(uri)?.session === sessionId) {
          this.changed.fire(uri);
        }
      }
      return;
    }
    const settled = setTimeout(() => {
      this.settling.delete(sessionId);
      for (const { uri } of vscode.workspace.textDocuments) {
        const reference = referenceOf(uri);
        const open = reference?.selected.kind === "checkpoint" || (reference?.selected.kind === "range" && reference.selected.to === undefined);
        if (reference?.session === sessionId && reference.timeline === undefined && open) {
          this.changed.fire(uri);
        }
      }
    }, SETTLE);
    this.settling.set(sessionId, settled);
  }

  /** Texts that nothing can be asked for again may have what was redacted. */
  private withdrawTexts(sessionId: string): void {
    const text = vscode.l10n.t("Something was redacted in this session, so this is no longer shown.");
    for (const { uri } of [...this.texts.values()].filter((own) => own.sessionId === sessionId)) {
      this.texts.set(uri.toString(), { uri, text, sessionId });
      this.changed.fire(uri);
    }
  }
}

/** A text that is nowhere else. */
interface OwnText {
  readonly uri: vscode.Uri;
  readonly text: string;
  readonly sessionId: string | undefined;
}

interface TextOptions {
  /** `txt`: nothing in it is more than text. */
  readonly format?: "md" | "txt";
  /** The session that the text is of; undefined: it holds nothing of any. */
  readonly sessionId?: string;
}

interface Followed {
  /** Of its open documents. */
  readonly uris: Set<string>;
  readonly held: Promise<Held>;
}

interface Content {
  readonly entries: readonly HistoryMessage[];
  /** Whether there are more than a document shows. */
  readonly more: boolean;
  /** The messages as the server wrote them. */
  readonly raw: readonly string[];
}

async function read(session: Session, { selected, timeline }: Omit<Reference, "title">, token: vscode.CancellationToken): Promise<Content> {
  const of = timeline === undefined ? {} : { timelineId: timeline };
  const stopped = (): boolean => token.isCancellationRequested;
  if (selected.kind === "messages") {
    const found = await Promise.all(selected.indexes.map((index) => gather(session, { from: index, to: index + 1, ...of }, 1, stopped)));
    return { entries: found.flatMap(({ entries }) => entries), more: false, raw: found.flatMap(({ raw }) => raw) };
  }
  const { kind, ...range } = selected;
  const first = kind === "checkpoint" ? { checkpointUid: selected.uid } : (range as { from: number; to?: number });
  return gather(session, { ...first, ...of }, MOST, stopped);
}

/** Reads pages until there are no more, or as many messages as are wanted. */
async function gather(session: Session, first: Omit<GetHistoryParams, "sessionId">, most: number, stopped: () => boolean): Promise<Content> {
  const entries: HistoryMessage[] = [];
  const raw: string[] = [];
  const of = first.timelineId === undefined ? {} : { timelineId: first.timelineId };
  const onReply = (line: string): void => void raw.push(...messagesIn(line));
  let params: Omit<GetHistoryParams, "sessionId"> | undefined = first;
  while (params && entries.length < most) {
    if (stopped()) {
      throw new vscode.CancellationError();
    }
    const { messages, nextCursor }: { messages: HistoryMessage[]; nextCursor?: string } = await session.request(
      "context/getHistory",
      { ...params, limit: Math.min(PAGE, most - entries.length) },
      { onReply },
    );
    entries.push(...messages);
    params = nextCursor === undefined ? undefined : { cursor: nextCursor, ...of };
  }
  return { entries, more: params !== undefined, raw };
}

/** The messages in a reply with a page of them, as they are written there. */
function messagesIn(reply: string): string[] {
  const messages = memberOf(memberOf(reply, "result") ?? "", "messages") ?? "";
  return elementsOf(messages).map((entry) => memberOf(entry, "message") ?? "null");
}

function asMarkdown(entries: readonly HistoryMessage[], more: boolean, selected: Selected): string {
  const earlier = selected.kind === "range" && selected.from > 0 ? `*${vscode.l10n.t("… {0} before", messages(selected.from))}*\n\n` : "";
  const rest = more ? `\n*${vscode.l10n.t("There is more than a document shows. Export the transcript to have all of it.")}*\n` : "";
  return earlier + (markdownOf(entries) || `*${vscode.l10n.t("No messages")}*\n`) + rest;
}

function asJson(raw: readonly string[], selected: Selected): string {
  const [only] = raw;
  return `${indented(selected.kind === "messages" && raw.length === 1 && only !== undefined ? only : `[${raw.join(",")}]`)}\n`;
}
