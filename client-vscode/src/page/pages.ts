/** The page of this window: it shows the conversation that was chosen last. */

import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import * as vscode from "vscode";
import type { Handlers, Workbench } from "../commands/register.js";
import { Refusal } from "../commands/report.js";
import { shownSession } from "../commands/targets.js";
import { Disposables } from "../lifecycle.js";
import type { Session } from "../sessions/session.js";
import { BeginningNode, CheckpointNode } from "../views/checkpointNodes.js";
import { MessageNode, ToolCallNode } from "../views/messageNodes.js";
import { SessionNode } from "../views/sessionsTree.js";
import { TimelineNode } from "../views/timelinesTree.js";
import { Conversation, type Place } from "./conversation.js";
import { pageHtml, type Resources } from "./html.js";
import { words } from "./words.js";

export const VIEW_TYPE = "timeleap.conversation";

/** A message of a session, from outside. */
export interface Target extends Place {
  readonly sessionId: string;
}

export class ConversationPages extends Disposables {
  private page: Conversation | undefined;
  private resources: Promise<Resources> | undefined;

  constructor(
    private readonly bench: Workbench,
    /** Where the page's script and style are. */
    private readonly folder: string,
  ) {
    super();
  }

  handlers(): Handlers {
    return { openConversation: (node) => this.openConversation(node) };
  }

  get current(): Conversation | undefined {
    return this.page;
  }

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
    const { script, style } = await (this.resources ??= this.read());
    const panel = vscode.window.createWebviewPanel(
      VIEW_TYPE,
      session.name,
      { viewColumn: vscode.ViewColumn.Active, preserveFocus: true },
      { enableScripts: true, localResourceRoots: [], enableFindWidget: false },
    );
    const html = pageHtml({ script, style }, words(), vscode.env.language, randomBytes(16).toString("hex"));
    const opened = new Conversation(panel, this.bench, session, place, html);
    this.page = opened;
    panel.onDidDispose(() => {
      opened.dispose();
      if (this.page === opened) {
        this.page = undefined;
      }
    });
  }

  override dispose(): void {
    this.page?.panel.dispose();
    super.dispose();
  }

  private async placeOf(node: unknown): Promise<{ readonly session: Session; readonly place: Place }> {
    if (node instanceof SessionNode) {
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
    } catch {
      this.resources = undefined;
      throw new Refusal(vscode.l10n.t("The extension is not complete: install it again."));
    }
  }
}

function at({ session, log }: CheckpointNode["place"], index: number): { readonly session: Session; readonly place: Place } {
  return { session, place: { index, ...(log.timelineId === undefined ? {} : { timeline: log.timelineId }) } };
}

function isTarget(node: unknown): node is Target {
  return typeof (node as Partial<Target> | undefined)?.sessionId === "string";
}
