/** One page: a conversation in an editor of its own, kept as it is by what the server notifies. */

import * as vscode from "vscode";
import type { Checkpoint, Timeline } from "timeleap-client";
import type { Workbench } from "../../core/commands/register.js";
import { report } from "../../core/commands/report.js";
import { Disposables } from "../../shared/lifecycle.js";
import { isTimeleapError, messageOf } from "../../shared/errors.js";
import { staleInWords, stalenessOf } from "../../kit/staleness.js";
import { previewOf, Search } from "../../kit/search.js";
import { summaryOf } from "../../shared/spanSummary.js";
import type { Session, SessionEvent } from "../../core/sessions/session.js";
import { headed, withDetail } from "../../shared/text/detail.js";
import { exact, oneLine, tokensUsed } from "../../shared/text/format.js";
import { whyReadOnly } from "../../shared/text/readOnly.js";
import { checkpointName } from "../../shared/text/happened.js";
import { timelineName } from "../../kit/branches.js";
import { act, actAtCheckpoint, messageAt, restoreShown, step, type Shown } from "./actions.js";
import type { Sheet } from "../../shared/sheet.js";
import type { MakeHtml } from "./html.js";
import { Changes } from "./changes.js";
import { compared } from "./compare.js";
import { Leading } from "./leading.js";
import { pickPoint } from "./points.js";
import { errorsOf, MOST_TEXT, shownMessage, textAt } from "./shown.js";
import type { Facts, FromPage, Point, ShownCheckpoint, ShownMessage, ShownTimeline, TextPlace, ToPage } from "./wire.js";
import { verbOf } from "../../shared/text/titles.js";

/** Messages that are asked for at once, at most; the page asks for fewer. */
const PAGE = 100;
const MANY = 1_000;
/** Timelines that are drawn. */
const TIMELINES = 20;
/** Characters of a long text that are told at a time. */
const PIECE = 512 * 1024;
/** Matches that are looked for at once. */
const HITS = 200;
/** Milliseconds that the page waits for its first messages, to come with them: its frame is not made sooner on a fast machine. */
export const FIRST_WAIT = 150;
/** Characters of those; more would be parsed with the page, and comes by itself. */
const FIRST_MOST = 1 << 20;

/** Where to begin. */
export interface Place {
  /** Absent: at the newest message. */
  readonly index?: number;
  readonly timeline?: string;
  /** Words to mark. */
  readonly query?: string;
  /** What is read above the conversation, which stays where it is. */
  readonly sheet?: Sheet;
  readonly compare?: { readonly from: Point; readonly to: Point };
}

export class Conversation extends Disposables {
  private epoch = 0;
  /** Of the state that the page was told last. */
  private head = "";
  private timeline: Timeline | undefined;
  private place: Place = {};
  private ready = false;
  /** Read while the page is being made, so that it can be painted at once. */
  private early: Promise<ToPage | undefined> = Promise.resolve(undefined);
  /** What the page came with, until it has said that it is there. */
  private first: { readonly place: Place; readonly epoch: number } | undefined;
  private following: vscode.Disposable | undefined;
  private current: Session;
  /** By uid, to act on; what the page was told. */
  private known = new Map<string, Checkpoint>();
  private lost = false;
  /** Whether the page was told that something could not be read. */
  private unreadable = false;
  private changes: Changes;
  private readonly leading: Leading;

  constructor(
    readonly panel: vscode.WebviewPanel,
    private readonly bench: Workbench,
    session: Session,
    place: Place,
    private readonly html: MakeHtml,
  ) {
    super();
    this.current = session;
    this.changes = new Changes(session, (uid) => this.known.get(uid));
    this.leading = this.register(new Leading(bench.views));
    this.register(panel.webview.onDidReceiveMessage((message: FromPage) => void this.take(message)));
    this.register(bench.sidecar.onDidChangeState(() => this.tellTrouble()));
    this.register(stalenessOf(bench.sidecar).onDidChange(() => this.tellTrouble()));
    this.register(bench.sessions.onDidChangeList(() => this.lookForSession()));
    this.register(new vscode.Disposable(() => void this.following?.dispose()));
    this.register(panel.onDidChangeViewState(() => {
      this.hidden();
      this.inFront();
    }));
    this.follow(session);
    this.loaded = this.load(place);
  }

  /** When the panel has something to show. */
  readonly loaded: Promise<void>;

  /**
   * The workbench takes its time to make the frame: what is read meanwhile stands in the page, which so needs no further way there
   * and back before it shows something.
   */
  private async load(place: Place): Promise<void> {
    await this.begin(place, false).catch((error: unknown) => this.fail(error));
    const early = await Promise.race([this.early, new Promise<undefined>((resolve) => setTimeout(resolve, FIRST_WAIT, undefined))]);
    if (this.disposed) {
      return;
    }
    const known = early && JSON.stringify(early).length <= FIRST_MOST ? [early] : [];
    this.first = known.length > 0 ? { place: this.place, epoch: this.epoch } : undefined;
    this.panel.webview.html = this.html(known.length > 0 ? [this.facts(0), ...known, this.go()] : []);
  }

  /** A page that is shown again is made anew from what it was made of: not from messages that may be others by then, or redacted. */
  private hidden(): void {
    if (!this.panel.visible && this.panel.webview.html !== "") {
      this.first = undefined;
      this.ready = false;
      this.early = Promise.resolve(undefined);
      this.panel.webview.html = this.html([]);
    }
  }

  /** The tree shows the session of the page that somebody has come back to. */
  private inFront(): void {
    const { sessions } = this.bench;
    if (this.panel.active && !this.lost && sessions.shown && sessions.shown !== this.current) {
      sessions.show(this.current);
    }
  }

  get session(): Session {
    return this.current;
  }

  /** Shows another session, or another place of this one. */
  show(session: Session, place: Place): void {
    const same = session === this.current && !this.lost;
    if (!same) {
      this.follow(session);
    } else if (this.ready && (place.sheet ?? place.compare) !== undefined) {
      void this.showOver(place).catch((error: unknown) => report(error, this.bench));
      return;
    }
    void this.begin(place, same).catch((error: unknown) => this.fail(error));
  }

  private follow(session: Session): void {
    this.current = session;
    this.changes = new Changes(session, (uid) => this.known.get(uid));
    this.lost = false;
    this.panel.title = oneLine(session.name, 60);
    this.following?.dispose();
    this.following = session.onDidChange((event) => this.changed(event));
  }

  private async begin(place: Place, same: boolean): Promise<void> {
    const { timeline } = this;
    this.timeline = place.timeline === undefined ? undefined : await this.findTimeline(place.timeline);
    this.place = place;
    if (!same || this.timeline?.timelineId !== timeline?.timelineId) {
      this.epoch += 1;
    }
    this.head = this.current.state.head;
    this.early = this.messagesAround(place.index).catch(() => undefined);
    if (this.ready) {
      await this.paint(same && this.timeline?.timelineId === timeline?.timelineId);
    }
  }

  /** What can be seen first goes first. */
  private async paint(same: boolean): Promise<void> {
    const { first } = this;
    this.first = undefined;
    const there = first?.place === this.place && first.epoch === this.epoch;
    const go = this.go(); // the page says where it stands as soon as it knows of messages: that is not where it shall go
    this.tellFacts(same || there ? this.total : 0);
    const early = there ? undefined : await this.early;
    if (early) {
      this.post(early);
    }
    if (!there) {
      this.post(go);
    }
    this.tellTrouble();
    await this.showOver(this.place);
    if (!same) {
      await Promise.all([this.tellCheckpoints(), this.tellUsage(), this.tellTimelines()]);
    }
  }

  private async showOver({ sheet, compare }: Place): Promise<void> {
    if (sheet) {
      this.post({ kind: "sheet", sheet });
    }
    if (compare) {
      await this.compare(compare.from, compare.to);
    }
  }

  private go(): ToPage {
    const { index, query } = this.place;
    return { kind: "go", index: index ?? this.total, ...(query === undefined ? {} : { query }) };
  }

  private get total(): number {
    return this.timeline?.messageCount ?? this.current.state.context.messageCount;
  }

  private get here(): Shown {
    return { session: this.current, ...(this.timeline ? { timeline: this.timeline.timelineId } : {}) };
  }

  private get of(): { timelineId?: string } {
    return this.timeline === undefined ? {} : { timelineId: this.timeline.timelineId };
  }

  private async take(message: FromPage): Promise<void> {
    try {
      await this.obey(message);
    } catch (error) {
      await report(error, this.bench);
    }
  }

  private async obey(message: FromPage): Promise<void> {
    const shown = this.here;
    switch (message.kind) {
      case "ready":
        this.ready = true;
        return this.paint(false);
      case "read":
        return this.read(message.epoch, message.from, message.to);
      case "act": {
        const { action, index } = message;
        return action === "compare" ? this.compare({ ...this.of, end: index + 1, name: `#${exact(index)}` }, {}) : act(this.bench, shown, { ...message, action });
      }
      case "checkpoint": {
        const checkpoint = this.known.get(message.uid);
        return checkpoint && actAtCheckpoint(this.bench, shown, message.action, checkpoint);
      }
      case "step":
        return step(this.bench, this.current, message.direction);
      case "restore":
        return this.timeline && restoreShown(this.bench, this.current, message.timeline, timelineName(this.timeline));
      case "log":
        return this.begin({ ...(message.timeline === undefined ? {} : { timeline: message.timeline }), ...(message.index === undefined ? {} : { index: message.index }) }, false);
      case "search":
        return this.search(message.search, message.query);
      case "compare":
        return this.compare(message.from, message.to);
      case "compareWith":
        return this.compareWith(message.from);
      case "files":
        this.post(await this.changes.list(message.span));
        return;
      case "fileDiff":
        this.post(await this.changes.diff(message.span, message.file));
        return;
      case "openDiff":
        return this.changes.open(message.span, message.file);
      case "text":
        return this.readOn(message.epoch, message.place, message.from);
      case "top":
        this.place = { index: message.index };
        if (!this.timeline && this.current === this.bench.sessions.shown) {
          this.leading.to(this.current, message.index);
        }
    }
  }

  private changed(event: SessionEvent): void {
    const { state } = this.current;
    this.panel.title = oneLine(this.current.name, 60);
    const rewritten = state.head !== this.head;
    this.head = state.head;
    if (event === "messagesAppended" || event === "tokenCountUpdated" || event === "systemPromptSet") {
      this.tellFacts(this.total);
      this.tellNewest(); // what happened in its span has another name now
      if (event === "tokenCountUpdated") {
        void this.tellUsage().catch(() => undefined);
      }
    } else if (event === "checkpointCreated") {
      this.tellFacts(this.total);
      this.tellNewest();
    } else if (event === "reverted") {
      this.rewritten(this.timeline ? this.total : state.context.messageCount);
    } else if (["cleared", "compacted", "folded", "timelineRestored", "dmailDelivered", "undone", "redone", "redacted", "external"].includes(event)) {
      // A timeline's messages stay as they are, unless something was redacted.
      this.rewritten(this.timeline && event !== "redacted" && event !== "external" ? this.total : 0);
    } else if (event === "state" && rewritten) {
      this.rewritten(0); // it was asked for anew, and is another one
    } else if (event !== "deleted") {
      this.tellFacts(this.total);
      this.tellNewest();
    }
    this.tellTrouble();
  }

  /** The newest checkpoint, where it is new or what is known of it has changed. */
  private tellNewest(): void {
    const checkpoint = this.current.state.context.checkpoints.at(-1);
    const known = checkpoint && this.known.get(checkpoint.uid);
    if (checkpoint && !this.timeline && JSON.stringify(known) !== JSON.stringify(checkpoint)) {
      this.post({ kind: "checkpoint", checkpoint: this.shown(checkpoint) });
    }
  }

  /** Another log has taken the place of the one before; its first `keep` messages are the same. */
  private rewritten(keep: number): void {
    this.epoch += 1;
    this.tellFacts(keep);
    const telling = [this.tellCheckpoints(), this.tellUsage(), this.tellTimelines()];
    void Promise.all(telling).catch((error: unknown) => this.fail(error));
  }

  private lookForSession(): void {
    const { sessions } = this.bench;
    const here = sessions.get(this.current.id) === this.current && sessions.isOpen(this.current.id);
    if (!here && !this.lost) {
      this.lost = true;
      this.epoch += 1;
      this.post({ kind: "trouble", gone: true, text: vscode.l10n.t("This session was closed or deleted; nothing of it is shown any more.") });
    }
  }

  private tellTrouble(): void {
    if (!this.lost) {
      const text = this.trouble();
      this.post({ kind: "trouble", ...(text === undefined ? {} : { text }) });
    }
  }

  private trouble(): string | undefined {
    const { state } = this.bench.sidecar;
    if (state.kind === "restarting" || state.kind === "starting") {
      return vscode.l10n.t("The server has stopped; it is being started again.");
    }
    if (state.kind === "failed") {
      return state.failure.message;
    }
    const lines = [...(this.current.writable ? [] : [whyReadOnly(this.current)]), ...(stalenessOf(this.bench.sidecar).present ? [`⚠ ${staleInWords()}`] : [])];
    return lines.length === 0 ? undefined : lines.join("\n");
  }

  private tellFacts(keep: number): void {
    this.post(this.facts(keep));
  }

  private facts(keep: number): ToPage {
    const { context } = this.current.state;
    const { path } = this.current.how;
    const facts: Facts = {
      session: { sessionId: this.current.id, ...(path === undefined ? {} : { path }) },
      title: this.timeline ? timelineName(this.timeline) : this.current.name,
      epoch: this.epoch,
      keep,
      messages: this.total,
      tokens: tokensUsed(context),
      checkpoints: this.timeline?.checkpointCount ?? context.checkpoints.length + context.checkpointsOmitted,
      writable: this.current.writable,
      canUndo: context.canUndo ?? 0,
      canRedo: context.canRedo ?? 0,
      ...(this.timeline ? { timeline: this.timeline.timelineId } : {}),
      ...(context.systemPrompt === null ? {} : { systemPrompt: context.systemPrompt.slice(0, MOST_TEXT) }),
    };
    return { kind: "facts", facts };
  }

  private async messagesAround(index: number | undefined): Promise<ToPage> {
    const { epoch, total } = this;
    const from = Math.max(0, Math.min(index ?? total, total) - 30);
    return this.messages(epoch, from, Math.min(total, from + 60));
  }

  private async read(epoch: number, from: number, to: number): Promise<void> {
    if (epoch !== this.epoch || this.lost) {
      return;
    }
    try {
      this.post(await this.messages(epoch, from, Math.min(to, from + PAGE)));
      if (this.unreadable) {
        this.unreadable = false;
        this.tellTrouble();
      }
    } catch (error) {
      // Where the server or the session is gone, that is told by itself; the page asks again when it is back.
      if (isTimeleapError(error) && epoch === this.epoch && this.bench.sessions.get(this.current.id) === this.current && error.kind !== "sessionNotOpen") {
        this.bench.log.warn(messageOf(error));
        this.unreadable = true;
        this.post({ kind: "trouble", text: withDetail(vscode.l10n.t("This cannot be shown."), messageOf(error)) });
      }
    }
  }

  /** Whole ranges, however many pages the server makes of them. */
  private async messages(epoch: number, from: number, to: number): Promise<ToPage> {
    const messages: ShownMessage[] = [];
    let at = from;
    while (at < to) {
      const page = await this.current.request("context/getHistory", { from: at, to, limit: to - at, ...this.of });
      messages.push(...page.messages.map(shownMessage));
      const last = page.messages.at(-1);
      if (!last || page.nextCursor === undefined) {
        break;
      }
      at = last.index + 1;
    }
    return { kind: "messages", epoch, from, to, messages };
  }

  private async tellCheckpoints(): Promise<void> {
    const { epoch } = this;
    this.known = new Map();
    let cursor: string | undefined;
    do {
      const page = await this.current.request("context/listCheckpoints", { order: "asc", limit: MANY, ...this.of, ...(cursor === undefined ? {} : { cursor }) });
      if (epoch !== this.epoch) {
        return;
      }
      cursor = page.nextCursor;
      this.post({ kind: "checkpoints", epoch, checkpoints: page.checkpoints.map((checkpoint) => this.shown(checkpoint)), more: cursor !== undefined });
    } while (cursor !== undefined);
  }

  private shown(checkpoint: Checkpoint): ShownCheckpoint {
    const { uid, id, messageCount, tokenCount, createdAt } = checkpoint;
    this.known.set(uid, checkpoint);
    const errors = errorsOf(checkpoint);
    return {
      uid,
      id,
      at: messageCount,
      tokens: tokenCount,
      name: checkpointName(checkpoint),
      ...(createdAt === undefined ? {} : { createdAt }),
      ...(errors === undefined ? {} : { errors }),
      ...(summaryOf(checkpoint)?.kind === "prompt" ? { turn: true } : {}),
      ...(checkpoint.files?.snapshot === undefined ? {} : { saved: true }),
      ...(checkpoint.files?.changed ? { changed: checkpoint.files.changed } : {}),
    };
  }

  /** The trail is of the live log; in a timeline the checkpoints alone say what they can. */
  private async tellUsage(): Promise<void> {
    const { epoch } = this;
    const usage: (readonly [number, number])[] = [];
    let cursor: string | undefined;
    do {
      const page: { usage: { index: number; tokenCount: number }[]; nextCursor?: string } = this.timeline
        ? { usage: [] }
        : await this.current.request("context/listUsage", { limit: MANY, ...(cursor === undefined ? {} : { cursor }) });
      usage.push(...page.usage.map(({ index, tokenCount }) => [index, tokenCount] as const));
      cursor = page.nextCursor;
    } while (cursor !== undefined && epoch === this.epoch);
    if (epoch === this.epoch) {
      this.post({ kind: "usage", epoch, usage });
    }
  }

  private async tellTimelines(): Promise<void> {
    const session = this.current;
    const { timelines } = await session.request("context/listTimelines", { limit: TIMELINES });
    const known = timelines.map((timeline): ShownTimeline => ({
      id: timeline.timelineId,
      name: timelineName(timeline),
      reason: timeline.reason,
      messages: timeline.messageCount,
      ...(timeline.createdAt === undefined ? {} : { createdAt: timeline.createdAt }),
    }));
    this.post({ kind: "timelines", timelines: known });
    const { epoch } = this;
    const measured: ShownTimeline[] = [];
    for (const timeline of known) {
      if (epoch !== this.epoch || session !== this.current) {
        return;
      }
      const common = await session
        .request("context/diff", { from: { timelineId: timeline.id }, to: {}, limit: 1, maxBytes: 1 })
        .then((difference) => difference.common, () => undefined);
      measured.push(common === undefined ? timeline : { ...timeline, common });
    }
    if (measured.length > 0) {
      this.post({ kind: "timelines", timelines: measured });
    }
  }

  private async findTimeline(id: string): Promise<Timeline | undefined> {
    const { timelines } = await this.current.request("context/listTimelines", { limit: MANY });
    return timelines.find(({ timelineId }) => timelineId === id);
  }

  private async search(search: number, query: string): Promise<void> {
    const asked = new Search(this.bench.sidecar, { query, regex: false, ignoreCase: true, sessionId: this.current.id });
    let problem: string | undefined;
    try {
      do {
        await asked.next();
      } while (asked.hasMore && asked.hits.length < HITS);
    } catch (error) {
      problem = messageOf(error);
    }
    const hits = asked.hits.map((hit) => ({ index: hit.index, preview: previewOf(hit), ...(hit.timelineId === undefined ? {} : { timeline: hit.timelineId }) }));
    this.post({ kind: "hits", search, hits, more: asked.hasMore && problem === undefined, ...(problem === undefined ? {} : { problem }) });
  }

  private async compare(from: Point, to: Point): Promise<void> {
    const { epoch } = this;
    const open = <T>({ session: id }: Point, work: (session: Session) => Promise<T>): Promise<T> =>
      id === undefined || id === this.current.id ? work(this.current) : this.bench.sessions.withOpen(id, work);
    const found = await open(from, (one) => open(to, (other) => compared(one, from, other, to)));
    if (epoch === this.epoch) {
      this.post(found);
    }
  }

  private async compareWith(from: Point): Promise<void> {
    const to = await pickPoint(this.bench, this.current, headed(verbOf("compare"), from.name ?? this.current.name));
    if (to) {
      await this.compare(from, to);
    }
  }

  /** A piece of a text that is too long to come with its message. */
  private async readOn(epoch: number, place: TextPlace, from: number): Promise<void> {
    const { message } = await messageAt(this.here, place.index);
    const text = textAt(message, place);
    if (text !== undefined && epoch === this.epoch) {
      this.post({ kind: "text", epoch, place, from, text: text.slice(from, from + PIECE), whole: text.length });
    }
  }

  /** What is under way for the page is not gone on with. */
  override dispose(): void {
    this.epoch += 1;
    super.dispose();
  }

  private fail(error: unknown): void {
    if (isTimeleapError(error) && !this.lost) {
      this.bench.log.warn(messageOf(error));
    }
  }

  private post(message: ToPage): void {
    if (!this.disposed && this.ready) {
      void this.panel.webview.postMessage(message);
    }
  }
}
