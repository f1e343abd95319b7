/**
 * What other extensions get from `activate()`: a conversation that outlives them.
 *
 *     const timeleap = await vscode.extensions.getExtension<TimeleapApi>("timeleap.timeleap")?.activate();
 *     const session = await timeleap.openSession({ title: "My agent", workspace: folder.uri.toString() });
 *     const { uid } = await session.checkpoint("before the refactoring");
 *     await session.append({ role: "user", content: "..." }, { role: "assistant", content: "..." });
 *     session.onDidChange((change) => change === "reverted" && reload(session));
 *     session.onWillRevert(({ waitUntil }) => waitUntil(stopTurn()));
 *     timeleap.registerPromptHandler(({ session, text }) => session.id === mine && showInInput(text));
 *     await session.revert(uid);
 *
 * Every change is on disk when its promise resolves, and takes effect once, also where the server dies in between. Requests of
 * one session take effect in the order of the calls. Members may be added; none is changed or taken away within `version` 1.
 */

import type * as vscode from "vscode";
import type {
  ApprovalDecision,
  Checkpoint,
  ContextDidChange,
  ContextSummary,
  HistoryMessage,
  Message,
  SessionDidChange,
  SessionOpenParams,
  SessionState,
} from "timeleap-client";

export type { ApprovalDecision, Checkpoint, ContextSummary, HistoryMessage, Message, SessionState };

export interface TimeleapApi {
  readonly version: 1;
  /**
   * Opens a session, creating it if `sessionId` is new or not given; in Restricted Mode it can only be read. Reject with an `Error`
   * whose `kind` says why, such as `sessionLocked`.
   *
   * @param options.show whether the views show it from now on; default: true
   */
  openSession(options?: OpenOptions): Promise<TimeleapSession>;
  /** The session that the views show. */
  readonly shownSession: TimeleapSession | undefined;
  readonly onDidChangeShownSession: vscode.Event<TimeleapSession | undefined>;
  /**
   * Takes the prompts that a person wants to change and send again, into the agent's input. The conversation has gone back to before
   * the prompt by then. Handlers are asked in the order of their registration, until one says `true` or resolves with it; each gets
   * five seconds, so say it when the text is taken, not when it is sent. A prompt that nobody takes goes to the clipboard.
   */
  registerPromptHandler(handler: (prompt: TimeleapPrompt) => boolean | Thenable<boolean>): vscode.Disposable;
}

export interface TimeleapPrompt {
  readonly session: TimeleapSession;
  readonly text: string;
  /** The whole message, where it is more than a text. */
  readonly message: Message;
  /** Where it stood, and the conversation ends now. */
  readonly messageIndex: number;
  /** The last checkpoint that the conversation has now. */
  readonly checkpointUid?: string;
}

export interface OpenOptions extends Pick<SessionOpenParams, "sessionId" | "path" | "title" | "systemPrompt" | "workspace" | "autoCheckpoint" | "files"> {
  readonly show?: boolean;
}

/**
 * What changed: see `kind` of the notifications in the protocol; `files`: a snapshot of files was taken, or they were put back;
 * `state`: anything about the session's state.
 */
export type TimeleapChange = ContextDidChange["kind"] | SessionDidChange["kind"] | "files" | "state";

export interface TimeleapSession {
  readonly id: string;
  /** As of the last notification. */
  readonly state: SessionState;
  readonly onDidChange: vscode.Event<TimeleapChange>;
  /** The conversation changed, in whatever window or program; says what is concerned, and which client did it. */
  readonly onDidChangeContext: vscode.Event<TimeleapContextChange>;
  /** Before this window takes the conversation back or brings a past one: the moment for an agent to stop its turn. */
  readonly onWillRevert: vscode.Event<TimeleapWillRevert>;
  /** Appends messages, all or none. Resolves with the index of the first. */
  append(...messages: readonly Message[]): Promise<number>;
  checkpoint(label?: string): Promise<Checkpoint>;
  /** Removes a checkpoint and all after it; what goes is kept as the timeline `timelineId`. */
  revert(checkpointUid: string): Promise<Reverted>;
  /** Makes a timeline the conversation again; undoes a revert. */
  restore(timelineId: string): Promise<Reverted>;
  /** Records what the model reported as its input. */
  setTokenCount(tokens: number): Promise<void>;
  /** The messages, page by page, oldest first. */
  history(from?: number): AsyncIterable<HistoryMessage>;
  /** Goes back before the last revert, restore, compaction or the like; more `steps` as one change. */
  undo(steps?: number): Promise<Reverted>;
  /** Does again what was undone. */
  redo(steps?: number): Promise<Reverted>;
  /** Whether the user allowed this action to run without being asked. */
  isApproved(action: string): Promise<boolean>;
  /**
   * Asks whether this may be done: at once where the session's approvals say so already, else a person in any window of the session
   * or at a terminal. Rejects with an `Error` of the `kind` `approvalTimeout` if nobody decides in time.
   */
  requestApproval(action: string, question?: ApprovalQuestion): Promise<ApprovalDecision>;
  close(): Promise<void>;
}

export interface TimeleapContextChange {
  readonly kind: ContextDidChange["kind"];
  /** The version of the log after it. */
  readonly head: string;
  /** The checkpoint that was made, gone back to, or that a D-Mail went to. */
  readonly checkpointUid?: string;
  /** In its place, where the conversation went back to before a message; of `messagesAppended` the first one's. */
  readonly messageIndex?: number;
  /** Where the log before it is kept. */
  readonly timelineId?: string;
  /** `clientInfo.name` of the program that did it; absent where that is not known. */
  readonly client?: string;
}

export interface TimeleapWillRevert {
  readonly kind: "revert" | "restore" | "undo" | "redo" | "dmail" | "clear";
  readonly checkpointUid?: string;
  readonly messageIndex?: number;
  /** The timeline that is to be the conversation again. */
  readonly timelineId?: string;
  /** How many are undone or redone; default: 1. */
  readonly steps?: number;
  /**
   * Holds the change up until the promise settles; all listeners together get five seconds. It cannot be vetoed. If something is
   * appended meanwhile, the person is told that the conversation changed, and asked to look again. Only within the listener's call.
   */
  readonly waitUntil: (work: Thenable<unknown>) => void;
}

export interface ApprovalQuestion {
  /** What exactly is to be done. */
  readonly description?: string;
  /** For windows that can show more: any object, up to 64 KiB as JSON. */
  readonly detail?: Readonly<Record<string, unknown>>;
  readonly toolCallId?: string;
  /** Seconds; default: 600. */
  readonly timeout?: number;
  /** Takes the question back. */
  readonly signal?: AbortSignal;
}

export interface Reverted {
  readonly timelineId: string | undefined;
  readonly context: ContextSummary;
}
