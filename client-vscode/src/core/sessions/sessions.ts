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
import { sentences } from "../../shared/text/detail.js";

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

/** A session of this window. */
interface Entry {
  readonly opening: Promise<Session>;
  /** Undefined while it is being opened. */
  session?: Session;
  /** How many need it for a while. */
  holders: number;
  /** Whether it stays open without them, and is listed as open. */
  wanted: boolean;
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

  private readonly entries = new Map<string, Entry>();
  private current: Session | undefined;
  private trouble: SessionProblem | undefined;
  private first: Promise<void> | undefined;
  /** Counts what was shown, nothing included: what is looked for to be shown first gives way to it. */
  private choices = 0;

  /** Looks for the session to show where this window has shown none before; a feature says it. */
  suggest: () => Promise<SessionOpenParams | undefined> = () => Promise.resolve(undefined);

  /** Those that look at requests about sessions before they are sent. */
  readonly before: Before[] = [];

  /** What a session that is made in a folder begins with; a feature says it. */
  ofNew: (workspace: string) => Partial<SessionOpenParams> = () => ({});

  constructor(
    private readonly sidecar: Sidecar,
    private readonly memory: vscode.Memento,
  ) {
    super();
    this.register(sidecar.onNotification("context/didChange", (change) => this.get(change.sessionId)?.contextChanged(change)));
    this.register(sidecar.onNotification("session/didChange", (change) => {
      this.get(change.sessionId)?.stateChanged(change);
      if (change.kind === "deleted") {
        this.forget(change.sessionId);
      }
      this.listMayHaveChanged();
    }));
    for (const name of ["files/didSnapshot", "files/didRestore"] as const) {
      this.register(sidecar.onNotification(name, ({ sessionId }) => this.get(sessionId)?.filesChanged()));
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
    return [...this.entries.values()].flatMap(({ session }) => session ?? []);
  }

  isOpen(sessionId: string): boolean {
    const entry = this.entries.get(sessionId);
    return entry?.session !== undefined && entry.wanted;
  }

  get(sessionId: string): Session | undefined {
    return this.entries.get(sessionId)?.session;
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
    const known = how.sessionId === undefined ? undefined : this.entries.get(how.sessionId);
    const entry = known ?? this.begin(how);
    this.want(entry);
    const session = await entry.opening;
    this.want(this.entries.get(session.id)); // a folder may hold one that is open under its id
    return session;
  }

  private begin(how: SessionOpenParams): Entry {
    const { sessionId, path, workspace } = how;
    const made = sessionId === undefined && path === undefined && workspace !== undefined ? this.ofNew(workspace) : {};
    const opening = openSession(this.sidecar, { ...made, ...how }).then((opened) => this.take(how, opened));
    const entry: Entry = { opening, holders: 0, wanted: false };
    if (sessionId !== undefined) {
      this.entries.set(sessionId, entry); // it may be asked for again while it takes its time, as with an owner that hangs
      opening.catch(() => this.entries.delete(sessionId));
    }
    return entry;
  }

  /** Takes a session that a request has opened, such as a fork. */
  adopt(how: SessionOpenParams, state: SessionState): Session {
    return this.take(how, { state });
  }

  private take(how: SessionOpenParams, opened: OpenedSession): Session {
    const { sessionId } = opened.state;
    const known = this.entries.get(sessionId);
    if (known?.session) {
      return known.session;
    }
    const session = new Session(this.sidecar, how.path === undefined ? { ...how, sessionId } : how, opened, this.before);
    const entry = known ?? { opening: Promise.resolve(session), holders: 0, wanted: true };
    entry.session = session;
    this.entries.set(sessionId, entry);
    this.listMayHaveChanged();
    return session;
  }

  show(session: Session | undefined): void {
    this.trouble = undefined;
    this.choices += 1;
    this.current = session;
    this.want(session && this.entries.get(session.id));
    // What a person chose stays, also where it is nothing.
    this.first ??= Promise.resolve();
    void this.memory.update(REMEMBERED, session?.again);
    this.shownChanged.fire(session);
  }

  /** Closes a session. Where something still needs it, it is only no longer listed until that has let it go. */
  async close(sessionId: string): Promise<void> {
    const entry = this.entries.get(sessionId);
    if (!entry?.session) {
      return;
    }
    entry.wanted = false;
    if (entry.session === this.current) {
      this.show(undefined);
    }
    this.listMayHaveChanged();
    await this.letGo(sessionId, entry);
  }

  /** Does something to a session, which is open for that long at least. */
  async withOpen<T>(sessionId: string, work: (session: Session) => Promise<T>): Promise<T> {
    const entry = this.entries.get(sessionId) ?? this.begin({ sessionId, create: false });
    entry.holders += 1;
    try {
      return await work(await entry.opening);
    } finally {
      entry.holders -= 1;
      await this.letGo(sessionId, entry);
    }
  }

  /** Looks again for what was asked for and could not be shown. */
  async tryAgain({ how }: SessionProblem): Promise<void> {
    if (how) {
      await this.open(how);
      return;
    }
    this.trouble = undefined;
    this.first = undefined;
    await this.openFirst();
    this.shownChanged.fire(this.current);
  }

  /** Opens what was shown last time, else what is suggested; once, as soon as there is one. */
  openFirst(): Promise<void> {
    this.first ??= this.findFirst();
    return this.first;
  }

  /** A page of the list. */
  list(params: Methods["session/list"]["params"]): Promise<Methods["session/list"]["result"]> {
    return this.sidecar.request("session/list", params);
  }

  /** Where the store did not say which session there is to show, it is asked again: by now it may. */
  listMayHaveChanged(): void {
    if (this.trouble && !this.trouble.how) {
      this.first = undefined;
    }
    this.listChanged.fire(undefined);
  }

  /** The last holder closes the door, unless somebody wants the session to stay open. */
  private async letGo(sessionId: string, entry: Entry): Promise<void> {
    if (entry.holders === 0 && !entry.wanted && this.entries.get(sessionId) === entry) {
      this.forget(sessionId);
      await this.sidecar.request("session/close", { sessionId });
    }
  }

  /** Somebody wants a session to be open, whoever needs it for a while. */
  private want(entry: Entry | undefined): void {
    if (entry && !entry.wanted) {
      entry.wanted = true;
      this.listMayHaveChanged();
    }
  }

  /** A session is closed, or has gone to the trash. */
  forget(sessionId: string): void {
    const session = this.get(sessionId);
    this.entries.delete(sessionId);
    // Both may be absent: another session was deleted while none is shown, and that is nobody's choice of what to show.
    if (session !== undefined && session === this.current) {
      this.show(undefined);
    }
    session?.dispose();
    this.listMayHaveChanged();
  }

  private async findFirst(): Promise<void> {
    const { choices, remembered } = this;
    const how = remembered ?? (await this.suggested(choices));
    if (how && choices === this.choices) {
      await this.openUnlessChosen(how, choices);
    }
  }

  /** Where nothing is suggested it is asked again. */
  private async suggested(choices: number): Promise<SessionOpenParams | undefined> {
    try {
      const found = await this.suggest();
      if (found) {
        return found;
      }
      if (this.trouble && !this.trouble.how) {
        this.trouble = undefined;
        this.shownChanged.fire(undefined);
      }
    } catch (error) {
      if (choices === this.choices && storageTroubleOf(error)) {
        this.fail(problemOf(error));
        return undefined;
      }
    }
    if (choices === this.choices) {
      this.first = undefined;
    }
    return undefined;
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
    for (const session of this.all) {
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
    this.listMayHaveChanged();
  }

  /** Takes away a session that cannot be opened again. */
  private lose(session: Session, error: unknown): void {
    const { kind } = this.sidecar.state;
    if (kind === "failed" || kind === "starting") {
      return; // that says nothing about the session: the next server is asked for it
    }
    this.entries.delete(session.id);
    session.dispose();
    if (session === this.current) {
      this.fail({ ...problemOf(error), how: session.again });
    }
  }

  private fail(problem: SessionProblem): void {
    this.trouble = problem;
    this.current = undefined;
    this.shownChanged.fire(undefined);
  }
}

function problemOf(error: unknown): Omit<SessionProblem, "how"> {
  const trouble = storageTroubleOf(error);
  if (trouble) {
    return { kind: trouble.kind, message: sentences(trouble.what, vscode.l10n.t("The session could not be opened."), trouble.next), cause: error, unanswered: false };
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
