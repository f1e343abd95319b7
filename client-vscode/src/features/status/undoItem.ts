/** How far the conversation can go back and forth, and what the next step each way would make of it: a dry run of it. */

import * as vscode from "vscode";
import type { Session } from "../../core/sessions/session.js";
import { SessionItem } from "../../kit/sessionItem.js";
import type { Sessions } from "../../core/sessions/sessions.js";
import { exact, listed, messages, tokens, tokensUsed } from "../../shared/text/format.js";
import { stepInWords } from "../../shared/text/steps.js";
import { titleOf } from "../../shared/text/titles.js";
import { headed } from "../../shared/text/detail.js";

type Direction = "context/undo" | "context/redo";

export class UndoItem extends SessionItem {
  /** What the text and the tooltip are about: they are asked for again where it is another one. */
  private shown = "";

  constructor(sessions: Sessions) {
    super(sessions, vscode.window.createStatusBarItem("timeleap.undo", vscode.StatusBarAlignment.Right, 91));
    this.item.name = `Timeleap: ${titleOf("undo")}`;
    this.item.command = "timeleap.undo";
  }

  protected override follow(session: Session | undefined): vscode.Disposable | undefined {
    this.shown = "";
    return super.follow(session);
  }

  protected show(session: Session): void {
    const { canUndo = 0, canRedo = 0 } = session.state.context;
    if (canUndo + canRedo === 0) {
      this.shown = "";
      this.item.hide();
      return;
    }
    // What is appended changes where a step back leads from, not where it leads to.
    const about = `${session.id} ${canUndo} ${canRedo} ${session.kept.length}`;
    if (about === this.shown) {
      return;
    }
    this.shown = about;
    this.item.text = `$(discard) ${exact(canUndo)} $(redo) ${exact(canRedo)}`;
    this.item.accessibilityInformation = { label: listed([headed(titleOf("undo"), exact(canUndo)), headed(titleOf("redo"), exact(canRedo))]) };
    this.item.show();
    void Promise.all([explain(session, "context/undo", canUndo), explain(session, "context/redo", canRedo)]).then((lines) => {
      if (this.shown === about) {
        this.item.tooltip = lines.filter((line) => line !== "").join("\n");
      }
    });
  }
}

async function explain(session: Session, direction: Direction, steps: number): Promise<string> {
  if (steps === 0) {
    return "";
  }
  try {
    const { context } = await session.request(direction, { dryRun: true });
    const then = listed([messages(context.messageCount), tokens(tokensUsed(context))]);
    return stepInWords(direction === "context/undo", then);
  } catch {
    return ""; // the command says what is wrong
  }
}
