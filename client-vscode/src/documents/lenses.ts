/** What can be done from a document: back from what was set aside, and at each message of the conversation. */

import * as vscode from "vscode";
import { Disposables } from "../lifecycle.js";
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
    /** The checkpoint right before the message, if there is one. */
    readonly checkpointUid?: string,
  ) {}
}

/** How `messageAsMarkdown` begins a message; no line of a message's own text does. */
const HEADING = /^## (\d+) · /u;

export class Lenses extends Disposables implements vscode.CodeLensProvider {
  private readonly changed = this.register(new vscode.EventEmitter<void>());
  readonly onDidChangeCodeLenses = this.changed.event;

  constructor(private readonly sessions: Sessions) {
    super();
    this.register(vscode.languages.registerCodeLensProvider({ scheme: SCHEME, language: "markdown" }, this));
    this.register(
      sessions.followShown((session) => {
        this.changed.fire();
        return session?.onDidChange((event) => event === "checkpointCreated" && this.changed.fire());
      }),
    );
  }

  async provideCodeLenses(document: vscode.TextDocument): Promise<vscode.CodeLens[]> {
    const reference = referenceOf(document.uri);
    const session = reference && this.sessions.get(reference.session);
    if (!reference || !session) {
      return [];
    }
    return reference.timeline === undefined ? atMessages(document, session, reference) : [restoring(session, reference.timeline)];
  }
}

function restoring(session: Session, timelineId: string): vscode.CodeLens {
  const command = { command: "timeleap.restoreTimeline", title: vscode.l10n.t("$(history) Set aside: bring it back…"), arguments: [new DocumentPlace(session, undefined, timelineId)] };
  return new vscode.CodeLens(new vscode.Range(0, 0, 0, 0), command);
}

async function atMessages(document: vscode.TextDocument, session: Session, { selected }: Omit<Reference, "title">): Promise<vscode.CodeLens[]> {
  // Frozen documents are of what was; only what follows the session is of its present.
  if (selected.kind === "messages" && selected.indexes.some((index) => index >= session.state.context.messageCount)) {
    return [];
  }
  const checkpoints = new Map((await session.log.spans()).map(({ start, checkpoint }) => [start, checkpoint.uid]));
  const lenses: vscode.CodeLens[] = [];
  for (let line = 0; line < document.lineCount; line += 1) {
    const index = HEADING.exec(document.lineAt(line).text)?.[1];
    if (index !== undefined) {
      const place = new DocumentPlace(session, Number(index), undefined, checkpoints.get(Number(index)));
      lenses.push(...actions(place).map((command) => new vscode.CodeLens(new vscode.Range(line, 0, line, 0), { ...command, arguments: [place] })));
    }
  }
  return lenses;
}

function actions({ session }: DocumentPlace): Pick<vscode.Command, "command" | "title">[] {
  const changes = session.writable && vscode.workspace.isTrusted;
  return [
    ...(changes ? [{ command: "timeleap.revertToMessage", title: vscode.l10n.t("Go back to before this…") }] : []),
    ...(vscode.workspace.isTrusted ? [{ command: "timeleap.fork", title: vscode.l10n.t("Fork from here…") }] : []),
    { command: "timeleap.compare", title: vscode.l10n.t("Compare with the present") },
  ];
}
