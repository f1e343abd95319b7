/**
 * Tools that chat in the editor can use: searching, reading and comparing kept conversations, and, each time only after the person
 * has agreed, making a checkpoint, going back, and leaving a note. The manifest says what each takes, and the editor checks it.
 */

import * as vscode from "vscode";
import type { DiffPoint, RequestOptions } from "timeleap-client";

import type { Workbench } from "../../core/commands/register.js";
import { kept, offerUndo } from "../../core/restore/timeTravel.js";
import { messageOf } from "../../shared/errors.js";
import { reach } from "../../kit/reaching.js";
import { Search, type Hit } from "../../kit/search.js";
import type { Wire } from "../../core/server/sidecar.js";
import type { Session } from "../../core/sessions/session.js";
import type { Sessions } from "../../core/sessions/sessions.js";
import { amount, oneLine } from "../../shared/text/format.js";
import { checkpointName } from "../../shared/text/happened.js";
import { sentences } from "../../shared/text/detail.js";
import { withoutLinks } from "../../shared/text/say.js";
import { toolName } from "../../shared/text/titles.js";
import { asData, checkpointLine, messageLines, pieces, STALE } from "./reading.js";

interface OfSession {
  /** Default: the session that the views show. */
  readonly sessionId?: string;
}

interface SearchInput extends OfSession {
  readonly query: string;
  readonly regex?: boolean;
  readonly everywhere?: boolean;
}

interface ReadInput extends OfSession {
  /** Negative: counted from the end. */
  readonly from?: number;
  readonly count?: number;
}

interface CheckpointsInput extends OfSession {
  readonly limit?: number;
}

interface CompareInput extends OfSession {
  readonly from: string;
  readonly to?: string;
}

interface LabelInput extends OfSession {
  readonly label: string;
}

interface GoBackInput extends OfSession {
  readonly checkpointUid: string;
}

interface NoteInput extends GoBackInput {
  readonly text: string;
}

/** What a person is asked before a tool changes something, and what is done then. */
interface Change<T> {
  readonly question: (session: Session, input: T) => Promise<vscode.LanguageModelToolConfirmationMessages>;
  readonly make: (session: Session, input: T, options: RequestOptions) => Promise<string>;
}

type Reads<T> = (session: Session, input: T, options: RequestOptions) => Promise<string>;

const MOST_READ = 50;
const DEFAULT_READ = 20;
const MOST_CHECKPOINTS = 100;
const DEFAULT_CHECKPOINTS = 30;

/** A tool, whatever it takes. */
export type Tool = vscode.LanguageModelTool<never>;
export type ToolName = "search" | "read" | "checkpoints" | "compare" | "create_checkpoint" | "go_back" | "write_note";

/** They remember what a person has agreed to. */
export type Tools = Readonly<Record<ToolName, Tool>>;

export function toolsOf(bench: Workbench): Tools {
  const tools = new Invocations(bench.sidecar, bench.sessions);
  return {
    search: { invoke: (options: vscode.LanguageModelToolInvocationOptions<SearchInput>, token) => tools.search(options.input, token) },
    read: tools.reading<ReadInput>(read),
    checkpoints: tools.reading<CheckpointsInput>(listCheckpoints),
    compare: tools.reading<CompareInput>(compare),
    create_checkpoint: tools.changing<LabelInput>(creatingCheckpoint),
    go_back: tools.changing<GoBackInput>(goingBack(bench)),
    write_note: tools.changing<NoteInput>(writingNote),
  };
}

class Invocations {
  constructor(
    private readonly wire: Pick<Wire, "request">,
    private readonly sessions: Sessions,
  ) {}

  search({ query, regex = false, everywhere, sessionId }: SearchInput, token: vscode.CancellationToken): Promise<vscode.LanguageModelToolResult> {
    return answered(token, async (options) => {
      const about = everywhere === true ? undefined : sessionId ?? this.sessions.shown?.id;
      const question = { query, regex, ignoreCase: true };
      const look = async (search: Search): Promise<Search> => (await search.next(options), search);
      // Of one session it is asked with the session open.
      const { hits, hasMore, unread, stale } =
        about === undefined
          ? await look(new Search(this.wire, question))
          : await this.sessions.withOpen(about, () => look(new Search(this.wire, { ...question, sessionId: about })));
      const more = hasMore ? "(There are more matches; look for something more exact.)" : undefined;
      return hits.length === 0
        ? ["Nothing found.", ...(stale ? [STALE] : []), ...unread].join("\n")
        : asData([...hitLines(hits), ...unread], { more, stale });
    });
  }

  reading<T extends OfSession>(reads: Reads<T>): vscode.LanguageModelTool<T> {
    return {
      invoke: ({ input }, token) => answered(token, (options) => this.sessions.withOpen(this.meant(input), (session) => reads(session, input, options))),
    };
  }

  changing<T extends OfSession>({ question, make }: Change<T>): vscode.LanguageModelTool<T> {
    return {
      prepareInvocation: async ({ input }) => ({
        confirmationMessages: await this.sessions.withOpen(this.meant(input), (session) => question(session, input)).catch(inWords),
      }),
      invoke: ({ input }, token) => answered(token, (options) => this.sessions.withOpen(this.meant(input), (session) => make(session, input, options))),
    };
  }

  private meant({ sessionId }: OfSession): string {
    const id = sessionId ?? this.sessions.shown?.id;
    if (id === undefined) {
      throw new Error("No session is shown. Give sessionId; timeleap_search with everywhere finds sessions.");
    }
    return id;
  }
}

const read: Reads<ReadInput> = async (session, { from = -DEFAULT_READ, count = DEFAULT_READ }, options) => {
  const total = session.state.context.messageCount;
  const start = from < 0 ? Math.max(0, total + from) : from;
  const limit = Math.min(Math.max(1, count), MOST_READ);
  const { messages, stale } = await session.request("context/getHistory", { from: start, limit }, options);
  const next = start + messages.length;
  const more = next < total ? `(Goes on at ${next} of ${total}.)` : `(That is the end, of ${total} messages.)`;
  return asData(messageLines(messages), { more, stale });
};

const listCheckpoints: Reads<CheckpointsInput> = async (session, { limit = DEFAULT_CHECKPOINTS }, options) => {
  const asked = Math.min(Math.max(1, limit), MOST_CHECKPOINTS);
  const { checkpoints, nextCursor, stale } = await session.request("context/listCheckpoints", { limit: asked, order: "desc" }, options);
  return asData(checkpoints.map(checkpointLine), { more: nextCursor === undefined ? undefined : "(There are older ones.)", stale });
};

const compare: Reads<CompareInput> = async (session, { from, to = "present" }, options) => {
  const { common, removed, added, removedCount, addedCount, stale } = await session.request(
    "context/diff",
    { from: point(from), to: point(to), limit: MOST_READ },
    options,
  );
  const more = removed.length + added.length < removedCount + addedCount ? "(Not all are shown.)" : undefined;
  const lines = [
    `${common} messages in common, then ${removedCount} only in ${from} and ${addedCount} only in ${to}.`,
    ...messageLines([...removed, ...added]).map((line, at) => `${at < removed.length ? "-" : "+"} ${line}`),
  ];
  return asData(lines, { more, stale });
};

const creatingCheckpoint: Change<LabelInput> = {
  question: ({ name }, { label }) =>
    Promise.resolve({
      title: toolName("create_checkpoint"),
      message: vscode.l10n.t("“{0}”: {1}", name, oneLine(label)),
    }),
  make: async (session, { label }, options) => `Made ${checkpointLine((await session.request("context/checkpoint", { label }, options)).checkpoint)}.`,
};

/** What the person agreed to holds for the conversation as it was then. */
function goingBack(bench: Workbench): Change<GoBackInput> {
  const agreed = new Map<string, string>();
  const key = ({ id }: Session, { checkpointUid }: GoBackInput): string => `${id} ${checkpointUid}`;
  return {
    question: async (session, input) => {
      const { checkpointUid } = input;
      const plan = await session.request("context/revertTo", { checkpointUid, dryRun: true });
      agreed.set(key(session, input), plan.head);
      return {
        title: toolName("go_back"),
        message: sentences(
          vscode.l10n.t("“{0}”: {1}", session.name, vscode.l10n.t("Restore to before “{0}”?", await nameOf(session, checkpointUid))),
          vscode.l10n.t("This and everything after it goes: {0}.", amount(plan)),
          kept(),
        ),
      };
    },
    make: async (session, input, options) => {
      const expectedHead = agreed.get(key(session, input));
      agreed.delete(key(session, input));
      const done = await session.request(
        "context/revertTo",
        { checkpointUid: input.checkpointUid, ...(expectedHead === undefined ? {} : { expectedHead }) },
        options,
      );
      offerUndo(bench, session, done, vscode.l10n.t("{0} changed “{1}”: {2} set aside.", vscode.l10n.t("Chat"), session.name, amount(done)));
      return `The conversation has ${done.context.messageCount} messages now; ${done.removed.messages} were set aside and can be brought back by undo.`;
    },
  };
}

const writingNote: Change<NoteInput> = {
  question: async (session, { text, checkpointUid }) => ({
    title: toolName("write_note"),
    message: vscode.l10n.t("“{0}”: {1}", session.name, `${vscode.l10n.t("D-Mail for “{0}”, not delivered yet", await nameOf(session, checkpointUid))}: ${oneLine(text, 600)}`),
  }),
  make: async (session, { text, checkpointUid }, options) => {
    await session.request("context/sendDMail", { message: text, checkpointUid }, options);
    return "The note waits. Delivering it takes the conversation back to that checkpoint; the person does that.";
  },
};

/** What the rows call a checkpoint: its uid tells the person who is asked nothing. */
async function nameOf({ log }: Session, uid: string): Promise<string> {
  const span = await reach(log, ({ checkpoint }) => checkpoint.uid === uid);
  return span ? withoutLinks(checkpointName(span.checkpoint)) : uid;
}

function point(name: string): DiffPoint {
  return name === "present" ? {} : { checkpointUid: name };
}

function hitLines(hits: readonly Hit[]): string[] {
  const said = pieces(hits.map(({ excerpt }) => excerpt?.text ?? ""));
  return hits.map(
    ({ sessionId, timelineId, index }, at) => `${sessionId} [${index}]${timelineId === undefined ? "" : ` (set aside in ${timelineId})`}: ${oneLine(said[at] ?? "", 300)}`,
  );
}

/** Cancel reaches the server. What went wrong is said in the server's words: they name the reason and what to do. */
async function answered(token: vscode.CancellationToken, work: (options: RequestOptions) => Promise<string>): Promise<vscode.LanguageModelToolResult> {
  const abort = new AbortController();
  const cancelling = token.onCancellationRequested(() => abort.abort());
  try {
    return new vscode.LanguageModelToolResult([new vscode.LanguageModelTextPart(await work({ signal: abort.signal }))]);
  } catch (error) {
    return inWords(error);
  } finally {
    cancelling.dispose();
  }
}

function inWords(error: unknown): never {
  throw new Error(messageOf(error), { cause: error });
}
