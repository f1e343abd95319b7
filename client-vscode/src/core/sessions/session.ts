/** One open session: its state as of the last notification, what has been read of it, and how it is changed. */

import { basename } from "node:path";
import * as vscode from "vscode";
import type { Checkpoint, ContextDidChange, ContextSummary, Methods, RequestOptions, SessionDidChange, SessionOpenParams, SessionState } from "timeleap-client";
import { Disposables } from "../../shared/lifecycle.js";
import type { Wire } from "../server/sidecar.js";
import type { StorageTrouble } from "../../shared/text/storageTrouble.js";
import { Log, type Read } from "./log.js";
import { openSession, type OpenedSession } from "./opening.js";
import { spanIn } from "../../shared/spanSummary.js";
import { programName } from "../../shared/text/sources.js";

/** Requests about one session; `sessionId` is filled in. */
type SessionMethod = { [M in keyof Methods]: Methods[M]["params"] extends { sessionId: string } ? M : never }[keyof Methods];
type Params<M extends SessionMethod> = Omit<Methods[M]["params"], "sessionId">;

/**
 * What happened: the kind of the notification; `files`: a snapshot of files was taken, or they were put back; `state`: a fresh look
 * at the server's state.
 */
export type SessionEvent = ContextDidChange["kind"] | SessionDidChange["kind"] | "files" | "state";

/** Looks at a request about a session before it is sent: what it returns takes the params' place. */
export type Before = (session: Session, method: string, params: object) => object | Promise<object>;

/** Milliseconds without news after which the state is asked for; it has what notifications leave out, such as pending tokens. */
const SETTLE = 200;

/** After what is written nothing that was undone can be done again. */
const NO_REDO = { canRedo: 0 } as const;

/** How many checkpoints a summary lists. */
const LISTED = 50;

export class Session extends Disposables {
  private readonly changed = this.register(new vscode.EventEmitter<SessionEvent>());
  readonly onDidChange = this.changed.event;
  private readonly contextDidChange = this.register(new vscode.EventEmitter<ContextDidChange>());
  /** The notification itself, once it has been taken over. */
  readonly onDidChangeContext = this.contextDidChange.event;
  readonly log: Log;
  /** For each time that what was read of it may have become untrue: how many messages at its beginning stayed as they were. */
  readonly kept: number[] = [];
  /** Counts the times that files on the disk may have changed. */
  filesEpoch = 0;
  private settling: NodeJS.Timeout | undefined;

  constructor(
    private readonly wire: Wire,
    /** How it was opened, to open it again. */
    readonly how: SessionOpenParams,
    private opened: OpenedSession,
    private readonly before: readonly Before[],
  ) {
    super();
    this.log = new Log({ read: this.read, total: () => this.state.context.messageCount });
  }

  get id(): string {
    return this.state.sessionId;
  }

  get state(): SessionState {
    return this.opened.state;
  }

  get writable(): boolean {
    return this.state.access !== "readOnly";
  }

  /** The program whose conversation this is a read-only copy of; undefined: it is a session of our own. */
  get mirrorOf(): string | undefined {
    const { source } = this.state;
    return source?.path === undefined ? undefined : programName(source.kind);
  }

  /** Whether it was asked for to be changed, and can only be followed: its owner does not answer. */
  get followed(): boolean {
    return !this.writable && this.mirrorOf === undefined && !this.restricted && !this.obstacle && this.how.access === undefined && this.how.path === undefined;
  }

  /** What keeps it from being changed though that was asked for; opening it again tries again. */
  get obstacle(): StorageTrouble | undefined {
    return this.writable ? undefined : this.opened.obstacle;
  }

  /** Whether it can be looked at only because of Restricted Mode. */
  get restricted(): boolean {
    return this.opened.restricted === true;
  }

  /** How to open it again. */
  get again(): SessionOpenParams {
    const { path, access, attach } = this.how;
    const which = path === undefined ? { sessionId: this.id, create: false } : { path };
    return { ...which, ...(access === undefined ? {} : { access }), ...(attach === undefined ? {} : { attach }) };
  }

  /** What a person calls it; a folder that was opened has the name it has on the disk. */
  get name(): string {
    const { path } = this.how;
    return this.state.title ?? (path === undefined ? this.id : basename(path));
  }

  /** The session says which method it reads by; what the wire resolves with belongs to that method. */
  readonly read = ((method: SessionMethod, params: object) => this.request(method, params)) as Read;

  /** Asks or changes. What changes something takes effect once, also if the server dies before it answers. */
  request<M extends SessionMethod>(method: M, params: Params<M>, options?: RequestOptions): Promise<Methods[M]["result"]> {
    const send = (given: object): Promise<Methods[M]["result"]> => this.wire.request(method, { ...(given as Params<M>), sessionId: this.id }, options);
    let given: object | Promise<object> = params;
    for (const before of this.before) {
      given = given instanceof Promise ? given.then((late: object) => before(this, method, late)) : before(this, method, given);
    }
    // Where nobody has to be waited for the request keeps its place among those of the session.
    return given instanceof Promise ? given.then(send) : send(given);
  }

  /** Takes over what a notification says. */
  contextChanged(change: ContextDidChange): void {
    this.patch({ head: change.head });
    const span = spanIn(change);
    if (span) {
      this.log.learn(span.checkpointUid, span);
    }
    switch (change.kind) {
      case "messagesAppended":
        this.patchContext({ ...NO_REDO, messageCount: change.firstIndex + change.count });
        break;
      case "checkpointCreated":
        this.log.add(change.checkpoint);
        this.patchContext({ ...NO_REDO, ...withCheckpoint(this.state.context, change.checkpoint) });
        break;
      case "tokenCountUpdated":
        this.patchContext({ ...NO_REDO, tokenCount: change.tokenCount, tokenCountWithPending: change.tokenCount });
        break;
      case "systemPromptSet":
      case "merged": // its checkpoint and its message are told beside it
        this.patchContext(NO_REDO);
        break;
      case "external":
        this.forget(0);
        break;
      default:
        this.patchContext(change.context);
        this.forget(change.kind === "reverted" ? change.context.messageCount : 0);
    }
    this.changed.fire(change.kind);
    this.contextDidChange.fire(change);
    this.settle();
  }

  /** What a change brings has the name that it has in the state. */
  stateChanged({ kind, cause, ...news }: SessionDidChange): void {
    this.patch(news as Partial<SessionState>);
    this.changed.fire(kind);
    if (kind !== "deleted") {
      this.settle();
    }
  }

  /** A snapshot of files was taken, or files were put back. */
  filesChanged(): void {
    this.filesEpoch += 1;
    this.changed.fire("files");
    this.settle();
  }

  /** Opens the session on another server. */
  async reopen(): Promise<void> {
    this.opened = await openSession(this.wire, this.again);
    this.take(this.state);
  }

  /** Asks for the state, and for everything else again. */
  async refresh(): Promise<void> {
    const state = await this.request("session/getState", {});
    this.take(state);
  }

  /** Takes a state that a request returned. */
  take(state: SessionState): void {
    this.opened = { ...this.opened, state };
    this.forget(Infinity);
    this.filesEpoch += 1;
    this.changed.fire("state");
  }

  /** @param kept Messages at the beginning of the log that are as they were. */
  private forget(kept: number): void {
    this.kept.push(kept);
    this.log.reset();
  }

  override dispose(): void {
    clearTimeout(this.settling);
    super.dispose();
  }

  private settle(): void {
    clearTimeout(this.settling);
    if (this.disposed) {
      return;
    }
    this.settling = setTimeout(() => {
      this.request("session/getState", {}).then(
        (state) => {
          // A change that came meanwhile has asked for a later look.
          if (state.head === this.state.head) {
            this.opened = { ...this.opened, state };
            // What was written, an agent's tools may have done something for.
            this.filesEpoch += 1;
            this.changed.fire("state");
          }
        },
        // What is wrong shows itself at the next thing somebody asks for.
        () => undefined,
      );
    }, SETTLE);
  }

  private patch(change: Partial<SessionState>): void {
    this.opened = { ...this.opened, state: { ...this.state, ...change } };
  }

  private patchContext(change: Partial<SessionState["context"]>): void {
    this.patch({ context: { ...this.state.context, ...change } });
  }
}

function withCheckpoint({ checkpoints, checkpointsOmitted }: ContextSummary, checkpoint: Checkpoint): Partial<ContextSummary> {
  const all = [...checkpoints, checkpoint];
  const left = Math.max(0, all.length - LISTED);
  return { checkpoints: all.slice(left), checkpointsOmitted: checkpointsOmitted + left, nCheckpoints: checkpoint.id + 1 };
}
