/** The API for other extensions, on the sessions of this window; `apiTypes.ts` says what it promises. */

import type * as vscode from "vscode";
import type { ApprovalDecision, Checkpoint, ContextDidChange, HistoryMessage, Message, NewMessage, RewriteResult, SessionState } from "timeleap-client";
import type { ApprovalQuestion, Reverted, TimeleapApi, TimeleapChange, TimeleapContextChange, TimeleapSession, TimeleapWillRevert } from "./apiTypes.js";
import type { Prompts } from "../../kit/prompts.js";
import type { Session } from "../../core/sessions/session.js";
import type { Sessions } from "../../core/sessions/sessions.js";
import { Rewriting } from "./rewriting.js";

const PAGE = 500;

export function createApi(sessions: Sessions, prompts: Prompts): TimeleapApi {
  const rewriting = new WeakMap<Session, Rewriting>();
  const rewritingOf = (session: Session): Rewriting => {
    const known = rewriting.get(session) ?? new Rewriting();
    rewriting.set(session, known);
    return known;
  };
  sessions.before.push((session, method, params) => rewriting.get(session)?.announce(method, params)?.then(() => params) ?? params);
  const handles = new WeakMap<Session, TimeleapSession>();
  const handleOf = (session: Session): TimeleapSession => {
    const handle = handles.get(session) ?? new Handle(session, sessions, rewritingOf(session));
    handles.set(session, handle);
    return handle;
  };
  return {
    version: 1,
    get shownSession() {
      return sessions.shown && handleOf(sessions.shown);
    },
    onDidChangeShownSession: (listener, self, disposables) => {
      const heard = sessions.onDidChangeShown((session) => {
        listener.call(self, session && handleOf(session));
      });
      disposables?.push(heard);
      return heard;
    },
    async openSession({ show = true, ...how } = {}) {
      const session = await (show ? sessions.open(how) : sessions.attach(how));
      return handleOf(session);
    },
    registerPromptHandler: (handler) => prompts.handle(({ session, ...prompt }) => handler({ session: handleOf(session), ...prompt })),
  };
}

class Handle implements TimeleapSession {
  constructor(
    private readonly session: Session,
    private readonly sessions: Sessions,
    private readonly rewriting: Rewriting,
  ) {}

  get id(): string {
    return this.session.id;
  }

  get state(): SessionState {
    return this.session.state;
  }

  get onDidChange(): vscode.Event<TimeleapChange> {
    return this.session.onDidChange;
  }

  get onWillRevert(): vscode.Event<TimeleapWillRevert> {
    return this.rewriting.onWillRewrite;
  }

  onDidChangeContext(listener: (change: TimeleapContextChange) => unknown, self?: unknown, disposables?: vscode.Disposable[]): vscode.Disposable {
    return this.session.onDidChangeContext((change) => listener.call(self, contextChange(change)), undefined, disposables);
  }

  async append(...messages: readonly Message[]): Promise<number> {
    // A message of a history may hold nulls; it is appended as it is.
    return (await this.session.request("context/appendMessage", { messages: messages as NewMessage[] })).firstIndex;
  }

  async checkpoint(label?: string): Promise<Checkpoint> {
    return (await this.session.request("context/checkpoint", label === undefined ? {} : { label })).checkpoint;
  }

  async revert(checkpointUid: string): Promise<Reverted> {
    return reverted(await this.session.request("context/revertTo", { checkpointUid }));
  }

  async restore(timelineId: string): Promise<Reverted> {
    return reverted(await this.session.request("context/restoreTimeline", { timelineId }));
  }

  async setTokenCount(tokens: number): Promise<void> {
    await this.session.request("context/updateTokenCount", { tokenCount: tokens });
  }

  async *history(from = 0): AsyncIterable<HistoryMessage> {
    for (let next = from; ; ) {
      const { messages } = await this.session.request("context/getHistory", { from: next, limit: PAGE });
      yield* messages;
      next += messages.length;
      if (messages.length === 0 || next >= this.session.state.context.messageCount) {
        return;
      }
    }
  }

  async isApproved(action: string): Promise<boolean> {
    return (await this.session.request("session/isApproved", { action })).approved;
  }

  async undo(steps = 1): Promise<Reverted> {
    return reverted(await this.session.request("context/undo", { steps }));
  }

  async redo(steps = 1): Promise<Reverted> {
    return reverted(await this.session.request("context/redo", { steps }));
  }

  requestApproval(action: string, { signal, ...question }: ApprovalQuestion = {}): Promise<ApprovalDecision> {
    return this.session.request("approval/request", { action, ...question }, signal && { signal });
  }

  close(): Promise<void> {
    return this.sessions.close(this.id);
  }
}

function reverted({ timelineId, context }: RewriteResult): Reverted {
  return { timelineId, context };
}

function contextChange(change: ContextDidChange): TimeleapContextChange {
  const { kind, head, cause } = change;
  const checkpointUid = kind === "checkpointCreated" ? change.checkpoint.uid : "checkpointUid" in change ? change.checkpointUid : undefined;
  const messageIndex = kind === "messagesAppended" ? change.firstIndex : "messageIndex" in change ? change.messageIndex : undefined;
  const timelineId = "timelineId" in change ? change.timelineId : undefined;
  return {
    kind,
    head,
    ...(checkpointUid === undefined ? {} : { checkpointUid }),
    ...(messageIndex === undefined ? {} : { messageIndex }),
    ...(timelineId === undefined ? {} : { timelineId }),
    ...(cause.client === undefined ? {} : { client: cause.client }),
  };
}
