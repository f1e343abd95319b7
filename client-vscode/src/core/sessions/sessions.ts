/** The sessions open in this window, and the one that the views show. */

import * as vscode from "vscode";
import type { Methods, Reconnected, SessionOpenParams, SessionState } from "timeleap-client";
import { Disposables } from "../../shared/lifecycle.js";
import { isTimeleapError, messageOf } from "../../shared/errors.js";
import type { Sidecar } from "../server/sidecar.js";
import { problemInWords, type ProblemKind } from "../../shared/text/problems.js";
import { storageTroubleOf, type StorageTroubleKind } from "../../shared/text/storageTrouble.js";
import { canBeReadAfter, openSession, type OpenedSession } from "./opening.js";
import { Session, type Before } from "./session.js";
import { workspaces } from "../../shared/workspaces.js";

/** Why the session that was asked for cannot be shown; the names are context values in the manifest. */
export interface SessionProblem {
  readonly kind: ProblemKind | StorageTroubleKind;
  readonly message: string;
  /** What was thrown. */
  readonly cause: unknown;
  /** Nobody said that it cannot be shown: the server went away, or did not answer in time. Another one is asked as well. */
  readonly unanswered: boolean;
  /** How to ask for it again; absent where the store did not say which session there is to show. */
  readonly how?: SessionOpenParams;
}

/** A session that stays open until it is released. */
export interface Held {
  readonly session: Session;
  readonly release: () => Promise<void>;
}

/** Where it is remembered how to open the shown session, workspace by workspace. */
const REMEMBERED = "timeleap.session";

export class Sessions extends Disposables {
  private readonly shownChanged = this.register(new vscode.EventEmitter<Session | undefined>());
  /** Another session is shown, or none. */
  readonly onDidChangeShown = this.shownChanged.event;
  private readonly listChanged = this.register(new vscode.EventEmitter<undefined>());
  /** The list of sessions may have changed. */
  readonly onDidChangeList = this.listChanged.event;

  private readonly open_ = new Map<string, Session>();
  /** Those that are being opened. */
  private readonly opening = new Map<string, Promise<Session>>();
  /** How many need a session for a while, by its id. */
  private readonly holders = new Map<string, number>();
  /** Those that are open for their holders alone: nobody asked for them to be listed as open. */
  private readonly hidden = new Set<string>();
  private current: Session | undefined;
  private trouble: SessionProblem | undefined;
  private first: Promise<void> | undefined;
  /** Counts what was shown, nothing included: what is looked for to be shown first gives way to it. */
  private choices = 0;

  /** Those that look at requests about sessions before they are sent. */
  readonly before: Before[] = [];

  /** What a session that is made in a folder begins with; a feature says it. */
  ofNew: (workspace: string) => Partial<SessionOpenParams> = () => ({});

  constructor(
    private readonly sidecar: Sidecar,
    private readonly memory: vscode.Memento,
  ) {
    super();
    this.register(sidecar.onNotification("context/didChange", (change) => this.open_.get(change.sessionId)?.contextChanged(change)));
    this.register(sidecar.onNotification("session/didChange", (change) => {
      this.open_.get(change.sessionId)?.stateChanged(change);
      if (change.kind === "deleted") {
        this.forget(change.sessionId);
      }
      this.listChanged.fire(undefined);
    }));
    for (const name of ["files/didSnapshot", "files/didRestore"] as const) {
      this.register(sidecar.onNotification(name, ({ sessionId }) => this.open_.get(sessionId)?.filesChanged()));
    }
    this.register(sidecar.onDidConnect((reconnected) => this.reconnect(reconnected)));
  }

  get shown(): Session | undefined {
    return this.current;
  }

  /** How to open what this window showed last. */
  get remembered(): SessionOpenParams | undefined {
    return this.memory.get<SessionOpenParams>(REMEMBERED);
  }

  get problem(): SessionProblem | undefined {
    return this.trouble;
  }

  /**
   * Follows what is shown.
   *
   * @param begin gets each session that is shown from now on, and undefined when none is; what it returns ends with the next one
   */
  followShown(begin: (session: Session | undefined) => vscode.Disposable | undefined): vscode.Disposable {
    let following: vscode.Disposable | undefined;
    const shown = this.onDidChangeShown((session) => {
      following?.dispose();
      following = begin(session);
    });
    return new vscode.Disposable(() => {
      shown.dispose();
      following?.dispose();
    });
  }

  get all(): Session[] {
    return [...this.open_.values()];
  }

  isOpen(sessionId: string): boolean {
    return this.open_.has(sessionId) && !this.hidden.has(sessionId);
  }

  get(sessionId: string): Session | undefined {
    return this.open_.get(sessionId);
  }

  /** Opens a session and shows it. In Restricted Mode it is only looked at. */
  async open(how: SessionOpenParams): Promise<Session> {
    try {
      const session = await this.attach(how);
      this.show(session);
      return session;
    } catch (error) {
      this.fail({ ...problemOf(error), how });
      throw error;
    }
  }

  /** Opens a session without showing it. Opening it again gives the same. */
  async attach(how: SessionOpenParams): Promise<Session> {
    if (how.sessionId !== undefined) {
      this.stay(how.sessionId);
    }
    const session = await this.connect(how);
    this.stay(session.id);
    return session;
  }

  private async connect(how: SessionOpenParams): Promise<Session> {
    const id = how.sessionId;
    const known = id === undefined ? undefined : this.open_.get(id) ?? this.opening.get(id);
    if (known) {
      return known; // or asked for again while it takes its time, as with an owner that hangs
    }
    const made = id === undefined && how.path === undefined && how.workspace !== undefined ? this.ofNew(how.workspace) : {};
    const opening = openSession(this.sidecar, { ...made, ...how }).then((opened) => this.take(how, opened));
    if (id !== undefined) {
      const done = (): boolean => this.opening.delete(id);
      this.opening.set(id, opening);
      opening.then(done, done);
    }
    return opening;
  }

  /** Takes a session that a request has opened, such as a fork. */
  adopt(how: SessionOpenParams, state: SessionState): Session {
    return this.take(how, { state });
  }

  private take(how: SessionOpenParams, { state, obstacle, firstPage }: OpenedSession): Session {
    const known = this.open_.get(state.sessionId);
    if (known) {
      return known;
    }
    const session = new Session(this.sidecar, how.path === undefined ? { ...how, sessionId: state.sessionId } : how, state, obstacle, firstPage, this.before);
    this.open_.set(session.id, session);
    this.listChanged.fire(undefined);
    return session;
  }

  show(session: Session | undefined): void {
    this.trouble = undefined;
    this.choices += 1;
    this.current = session;
    if (session) {
      this.stay(session.id);
    }
    // What a person chose stays, also where it is nothing.
    this.first ??= Promise.resolve();
    void this.memory.update(REMEMBERED, session && again(session));
    this.shownChanged.fire(session);
  }

  /** Closes a session. Where something still needs it, it is only hidden until that has let it go. */
  async close(sessionId: string): Promise<void> {
    if (!this.open_.has(sessionId)) {
      return;
    }
    if (this.holders.has(sessionId)) {
      this.hidden.add(sessionId);
      if (sessionId === this.current?.id) {
        this.show(undefined);
      }
      this.listChanged.fire(undefined);
      return;
    }
    this.forget(sessionId);
    await this.sidecar.request("session/close", { sessionId });
  }

  /** Does something to a session, which is open for that long at least. */
  async withOpen<T>(sessionId: string, work: (session: Session) => Promise<T>): Promise<T> {
    const { session, release } = await this.hold(sessionId);
    try {
      return await work(session);
    } finally {
      await release();
    }
  }

  /** Has a session open until `release` is called: what happens to it is heard for that long. */
  async hold(sessionId: string): Promise<Held> {
    const count = this.holders.get(sessionId) ?? 0;
    this.holders.set(sessionId, count + 1);
    try {
      const session = this.open_.get(sessionId) ?? (await this.attachHidden(sessionId));
      return { session, release: () => this.release(sessionId) };
    } catch (error) {
      await this.release(sessionId);
      throw error;
    }
  }

  /** Looks again for what was asked for and could not be shown. */
  async tryAgain({ how }: SessionProblem, newest: boolean): Promise<void> {
    if (how) {
      await this.open(how);
      return;
    }
    this.trouble = undefined;
    await this.openFirst(newest);
    this.shownChanged.fire(this.current);
  }

  /** Opens what was shown last time, else the newest session of this workspace; once, as soon as there is one. */
  openFirst(newest: boolean): Promise<void> {
    this.first ??= this.findFirst(newest);
    return this.first;
  }

  /**
   * Opens what was only looked at in Restricted Mode again, as it was asked for. Trust may change settings as well, and they the
   * server: then it is another one that the session is opened on.
   */
  async reopenForWriting(): Promise<void> {
    for (const session of [...this.open_.values()]) {
      if (session.restricted) {
        await this.sidecar.request("session/close", { sessionId: session.id }).catch(() => undefined);
        await session.reopen().catch((error: unknown) => this.lose(session, error));
      }
    }
    this.listChanged.fire(undefined);
  }

  /** A page of the list. */
  list(params: Methods["session/list"]["params"]): Promise<Methods["session/list"]["result"]> {
    return this.sidecar.request("session/list", params);
  }

  /** A session has gone to the trash. */
  deleted(sessionId: string): void {
    this.forget(sessionId);
  }

  listMayHaveChanged(): void {
    this.listChanged.fire(undefined);
  }

  private attachHidden(sessionId: string): Promise<Session> {
    if (!this.opening.has(sessionId)) {
      this.hidden.add(sessionId);
    }
    return this.connect({ sessionId, create: false });
  }

  /** The last holder closes the door. */
  private async release(sessionId: string): Promise<void> {
    const holders = (this.holders.get(sessionId) ?? 0) - 1;
    if (holders > 0) {
      this.holders.set(sessionId, holders);
      return;
    }
    this.holders.delete(sessionId);
    if (this.hidden.delete(sessionId)) {
      await this.close(sessionId);
    }
  }

  /** Somebody wants a session to be open, whoever holds it. */
  private stay(sessionId: string): void {
    if (this.hidden.delete(sessionId)) {
      this.listChanged.fire(undefined);
    }
  }

  private forget(sessionId: string): void {
    const session = this.open_.get(sessionId);
    this.open_.delete(sessionId);
    this.hidden.delete(sessionId);
    // Both may be absent: another session was deleted while none is shown, and that is nobody's choice of what to show.
    if (session !== undefined && session === this.current) {
      this.show(undefined);
    }
    session?.dispose();
    this.listChanged.fire(undefined);
  }

  private async findFirst(newest: boolean): Promise<void> {
    const { choices } = this;
    const { remembered } = this;
    if (remembered !== undefined) {
      await this.openUnlessChosen(remembered, choices);
      return;
    }
    const folders = workspaces();
    if (!newest || folders.length === 0) {
      return;
    }
    let pages: readonly Methods["session/list"]["result"][];
    try {
      pages = await Promise.all(folders.map(({ uri }) => this.list({ workspace: uri, limit: 1 })));
    } catch (error) {
      this.first = undefined; // so that it is looked for again
      if (choices === this.choices && storageTroubleOf(error)) {
        this.fail(problemOf(error));
      }
      return;
    }
    const [found] = pages.flatMap(({ sessions }) => sessions).sort((one, other) => other.updatedAt.localeCompare(one.updatedAt));
    if (choices !== this.choices) {
      return;
    }
    if (found) {
      await this.openUnlessChosen({ sessionId: found.sessionId, create: false }, choices);
    } else {
      this.first = undefined;
    }
  }

  /** Shows a session, or why it cannot be, unless a person has shown or closed something while it was opened. */
  private async openUnlessChosen(how: SessionOpenParams, choices: number): Promise<void> {
    const before = this.all;
    try {
      const session = await this.attach(how);
      if (choices === this.choices) {
        this.show(session);
      } else if (session !== this.current && !before.includes(session)) {
        void this.close(session.id).catch(() => undefined);
      }
    } catch (error) {
      if (choices === this.choices) {
        this.fail({ ...problemOf(error), how });
      }
    }
  }

  /** What changed while there was no server was not notified, so everything is asked for again. */
  private reconnect(reconnected: Reconnected | undefined): void {
    const refused = new Map(reconnected?.refused.map(({ sessionId, error }) => [sessionId, error]));
    for (const session of this.open_.values()) {
      const refusal = refused.get(session.id);
      const again = refusal
        ? canBeReadAfter(refusal, session.how) ? session.reopen() : Promise.reject(refusal)
        : reconnected ? session.refresh() : session.reopen();
      again.catch((error: unknown) => this.lose(session, error));
    }
    // Not where the server was started again by itself: then the session may be what it cannot stand.
    if (!reconnected && this.trouble?.unanswered && this.trouble.how) {
      void this.openUnlessChosen(this.trouble.how, this.choices);
    }
    this.listChanged.fire(undefined);
  }

  /** Takes away a session that cannot be opened again. */
  private lose(session: Session, error: unknown): void {
    const { kind } = this.sidecar.state;
    if (kind === "failed" || kind === "starting") {
      return; // that says nothing about the session: the next server is asked for it
    }
    this.open_.delete(session.id);
    this.hidden.delete(session.id);
    session.dispose();
    if (session === this.current) {
      this.fail({ ...problemOf(error), how: session.how });
    }
  }

  private fail(problem: SessionProblem): void {
    this.trouble = problem;
    this.current = undefined;
    this.shownChanged.fire(undefined);
  }
}

/** How to open a session that exists. */
function again({ id, how: { path, access } }: Session): SessionOpenParams {
  return { ...(path === undefined ? { sessionId: id, create: false } : { path }), ...(access === undefined ? {} : { access }) };
}

function problemOf(error: unknown): Omit<SessionProblem, "how"> {
  const trouble = storageTroubleOf(error);
  if (trouble) {
    return { kind: trouble.kind, message: `${trouble.what} ${vscode.l10n.t("The session could not be opened.")} ${trouble.next}`, cause: error, unanswered: false };
  }
  const kind = kindOf(error);
  return { kind, message: problemInWords(kind, messageOf(error)), cause: error, unanswered: !isTimeleapError(error) };
}

function kindOf(error: unknown): ProblemKind {
  if (isTimeleapError(error, "corrupted") || isTimeleapError(error, "storageFailure")) {
    return "damaged";
  }
  if (isTimeleapError(error, "sessionLocked")) {
    return "locked";
  }
  return isTimeleapError(error, "sessionNotFound") ? "gone" : "failed";
}
