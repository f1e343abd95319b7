/** What can be done from a document: back from what was set aside, and at each message of the conversation. */

import * as vscode from "vscode";
import { Disposables } from "../lifecycle.js";
import { actionsAt, type Action } from "../page/wire.js";
import { words } from "../page/words.js";
import type { Session } from "../sessions/session.js";
import type { Sessions } from "../sessions/sessions.js";
import { referenceOf, SCHEME, type Reference } from "./reference.js";

/** A message in a document, or all that a document of a timeline shows. */
export class DocumentPlace {
  constructor(
    readonly session: Session,
    /** Of the message; absent: the whole document is meant. */
    readonly index?: number,
    readonly timelineId?: string,
    /** What is done there; absent: that is asked. */
    readonly action?: Action,
  ) {}
}

/** How `messageAsMarkdown` begins a message; no line of a message's own text does. */
const HEADING = /^## (\d+) · /u;
/** The actions that have a lens of their own; the others are in a list. */
const DIRECT: ReadonlySet<Action> = new Set(["revert", "fork", "compare"]);

export class Lenses extends Disposables implements vscode.CodeLensProvider {
  private readonly changed = this.register(new vscode.EventEmitter<void>());
  readonly onDidChangeCodeLenses = this.changed.event;

  constructor(private readonly sessions: Sessions) {
    super();
    this.register(vscode.languages.registerCodeLensProvider({ scheme: SCHEME, language: "markdown" }, this));
    this.register(
      sessions.followShown(() => {
        this.changed.fire();
        return undefined;
      }),
    );
  }

  provideCodeLenses(document: vscode.TextDocument): vscode.CodeLens[] {
    const reference = referenceOf(document.uri);
    const session = reference && this.sessions.get(reference.session);
    if (!reference || !session) {
      return [];
    }
    return [...(reference.timeline === undefined ? [] : [restoring(session, reference.timeline)]), ...atMessages(document, session, reference)];
  }
}

/** What can be done at a message of a document, by its role. */
export function actionsOf({ session, timelineId }: DocumentPlace, role: string): Action[] {
  const present = timelineId === undefined && vscode.workspace.isTrusted;
  return actionsAt(role, { live: present && session.writable, forkable: present }).filter((action) => action !== "document");
}

/** The message that a line of a document belongs to. */
export function indexAbove(document: vscode.TextDocument, line: number): number | undefined {
  for (let at = line; at >= 0; at -= 1) {
    const index = indexIn(document, at);
    if (index !== undefined) {
      return index;
    }
  }
  return undefined;
}

function indexIn(document: vscode.TextDocument, line: number): number | undefined {
  const index = HEADING.exec(document.lineAt(line).text)?.[1];
  return index === undefined ? undefined : Number(index);
}

function lens(line: number, title: string, command: string, place: DocumentPlace): vscode.CodeLens {
  return new vscode.CodeLens(new vscode.Range(line, 0, line, 0), { command: `timeleap.${command}`, title, arguments: [place] });
}

function restoring(session: Session, timelineId: string): vscode.CodeLens {
  return lens(0, vscode.l10n.t("$(history) Set aside: bring it back…"), "restoreTimeline", new DocumentPlace(session, undefined, timelineId));
}

function atMessages(document: vscode.TextDocument, session: Session, { selected, timeline }: Omit<Reference, "title">): vscode.CodeLens[] {
  // Frozen documents are of what was; only what follows the session is of its present.
  if (timeline === undefined && selected.kind === "messages" && selected.indexes.some((index) => index >= session.state.context.messageCount)) {
    return [];
  }
  const texts = words();
  const lenses: vscode.CodeLens[] = [];
  for (let line = 0; line < document.lineCount; line += 1) {
    const index = indexIn(document, line);
    if (index !== undefined) {
      const place = new DocumentPlace(session, index, timeline);
      const direct = actionsOf(place, "").filter((action) => DIRECT.has(action));
      lenses.push(
        ...direct.map((action) => lens(line, texts[action], "messageActions", new DocumentPlace(session, index, timeline, action))),
        lens(line, vscode.l10n.t("More…"), "messageActions", place),
      );
    }
  }
  return lenses;
}
