/** The page of this window: it shows the conversation that was chosen last. */

import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import * as vscode from "vscode";
import type { Handlers, Workbench } from "../../core/commands/register.js";
import { shownSession } from "../../core/commands/targets.js";
import { Disposables } from "../../shared/lifecycle.js";
import { messageOf } from "../../shared/errors.js";
import { withDetail } from "../../shared/text/detail.js";
import type { Session } from "../../core/sessions/session.js";
import { BeginningNode, CheckpointNode } from "../../core/tree/checkpointNodes.js";
import { MessageNode, ToolCallNode } from "../../kit/messageNodes.js";
import { ChosenSession } from "../../kit/chosen.js";
import { TimelineNode } from "../../kit/branches.js";
import { Conversation, type Place } from "./conversation.js";
import { noticeHtml, pageHtml, type Resources } from "./html.js";
import type { Kept } from "./wire.js";
import { words } from "./words.js";

export const VIEW_TYPE = "timeleap.conversation";

const OPTIONS: vscode.WebviewOptions = { enableScripts: true, localResourceRoots: [] };

/** A message of a session, from outside. */
export interface Target extends Place {
  readonly sessionId: string;
}

export class ConversationPages extends Disposables implements vscode.WebviewPanelSerializer {
  private page: Conversation | undefined;
  private resources: Promise<Resources> | undefined;

  constructor(
    private readonly bench: Workbench,
    /** Where the page's script and style are. */
    private readonly folder: string,
  ) {
    super();
    this.register(vscode.window.registerWebviewPanelSerializer(VIEW_TYPE, this));
  }

  handlers(): Handlers {
    return { openConversation: (node) => this.openConversation(node) };
  }

  get current(): Conversation | undefined {
    return this.page;
  }

  /** Something to read or a comparison comes over the conversation of the session. */
  private async openConversation(node: unknown): Promise<void> {
    const { session, place } = await this.placeOf(node);
    await this.open(session, place);
  }

  async open(session: Session, place: Place): Promise<void> {
    const { page } = this;
    if (page) {
      page.panel.reveal(undefined, true);
      page.show(session, place);
      return;
    }
    const resources = await (this.resources ??= this.read());
    const where = { viewColumn: vscode.ViewColumn.Active, preserveFocus: true };
    await this.fill(vscode.window.createWebviewPanel(VIEW_TYPE, session.name, where, { ...OPTIONS, enableFindWidget: false }), resources, session, place);
  }

  /** Puts a conversation into a panel. */
  private async fill(panel: vscode.WebviewPanel, resources: Resources, session: Session, place: Place): Promise<void> {
    const nonce = randomBytes(16).toString("hex");
    const opened = new Conversation(panel, this.bench, session, place, (first) => pageHtml(resources, words(), vscode.env.language, nonce, first));
    this.page = opened;
    panel.onDidDispose(() => {
      opened.dispose();
      if (this.page === opened) {
        this.page = undefined;
      }
    });
    await opened.loaded;
  }

  /** The page of a window that was reloaded: the same conversation, at the same message. */
  async deserializeWebviewPanel(panel: vscode.WebviewPanel, state: unknown): Promise<void> {
    panel.webview.options = OPTIONS;
    if (this.page || !isKept(state)) {
      panel.dispose();
      return;
    }
    const { sessionId, path, index, timeline } = state;
    try {
      const resources = await (this.resources ??= this.read());
      const session = await this.bench.sessions.attach(path === undefined ? { sessionId, create: false } : { path });
      await this.fill(panel, resources, session, { ...(index === undefined ? {} : { index }), ...(timeline === undefined ? {} : { timeline }) });
    } catch (error) {
      panel.webview.html = noticeHtml(withDetail(vscode.l10n.t("The session could not be opened."), messageOf(error)), vscode.env.language);
    }
  }

  override dispose(): void {
    this.page?.panel.dispose();
    super.dispose();
  }

  private async placeOf(node: unknown): Promise<{ readonly session: Session; readonly place: Place }> {
    if (node instanceof ChosenSession) {
      return { session: await this.bench.sessions.attach({ sessionId: node.info.sessionId, create: false }), place: {} };
    }
    if (node instanceof TimelineNode) {
      return { session: node.session, place: { timeline: node.timeline.timelineId } };
    }
    if (node instanceof CheckpointNode || node instanceof BeginningNode) {
      return at(node.place, node.span.start);
    }
    if (node instanceof MessageNode) {
      return at(node.place, node.entry.index);
    }
    if (node instanceof ToolCallNode) {
      return at(node.place, node.from.index);
    }
    if (isTarget(node)) {
      const { sessionId, ...place } = node;
      return { session: await this.bench.sessions.attach({ sessionId, create: false }), place };
    }
    return { session: shownSession(this.bench.sessions), place: {} };
  }

  private async read(): Promise<Resources> {
    try {
      const [script, style] = await Promise.all(["page.js", "page.css"].map((name) => readFile(join(this.folder, name), "utf8")));
      return { script: script ?? "", style: style ?? "" };
    } catch (error) {
      this.resources = undefined;
      throw error; // a file of the extension is missing, which it names
    }
  }
}

function at({ session, log }: CheckpointNode["place"], index: number): { readonly session: Session; readonly place: Place } {
  return { session, place: { index, ...(log.timelineId === undefined ? {} : { timeline: log.timelineId }) } };
}

/** What the workbench kept was written by the page, and may be of another version of it. */
function isKept(state: unknown): state is Kept {
  const { sessionId, path, timeline, index } = (state ?? {}) as Partial<Record<keyof Kept, unknown>>;
  const text = (value: unknown): boolean => value === undefined || typeof value === "string";
  return typeof sessionId === "string" && text(path) && text(timeline) && (index === undefined || Number.isSafeInteger(index));
}

function isTarget(node: unknown): node is Target {
  return typeof (node as Partial<Target> | undefined)?.sessionId === "string";
}
