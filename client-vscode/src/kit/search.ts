/** Looking for words in conversations: what has been found so far, a page at a time. */

import type { Match, Methods, RequestOptions, SessionMatch } from "timeleap-client";
import type { Wire } from "../core/server/sidecar.js";
import { oneLine } from "../shared/text/format.js";

export interface Question {
  readonly query: string;
  readonly regex: boolean;
  readonly ignoreCase: boolean;
  /** Absent: in all sessions. */
  readonly sessionId?: string;
  /** Whether in what was set aside, too. Default: true. */
  readonly timelines?: boolean;
}

export type Hit = Pick<SessionMatch, "sessionId" | "timelineId" | "index" | "ranges" | "excerpt">;

/** The most matches of a page. */
const PAGE = 50;
/** Characters of a preview, and of them before the match: few enough that the match, and what stands behind the preview, is in sight. */
const LENGTH = 72;
const LEAD = 24;

export class Search {
  private cursor: string | undefined;
  private complete = false;
  readonly hits: Hit[] = [];
  /** What could not be searched, and why. */
  readonly unread: string[] = [];
  /** A standby answered: what was committed last may not have been searched. */
  stale = false;

  constructor(
    private readonly wire: Pick<Wire, "request">,
    private readonly question: Question,
  ) {}

  get hasMore(): boolean {
    return !this.complete;
  }

  /** Asks for the next page; it may have nothing in it and not be the last. Shares its time with nobody: one call at a time. */
  async next(options?: RequestOptions): Promise<void> {
    const { sessionId, ...asked } = this.question;
    const params = { ...asked, limit: PAGE, distinct: true, excerpts: true, ...(this.cursor === undefined ? {} : { cursor: this.cursor }) };
    const page: Methods["session/search"]["result"] | Methods["context/search"]["result"] =
      sessionId === undefined
        ? await this.wire.request("session/search", params, options)
        : await this.wire.request("context/search", { ...params, sessionId }, options);
    this.hits.push(...page.matches.map((match: Match | SessionMatch) => ({ sessionId: sessionId ?? "", ...match })));
    this.unread.push(...(page.unread ?? []).map(({ message }) => message));
    this.stale ||= page.stale === true;
    this.cursor = page.nextCursor;
    this.complete = page.nextCursor === undefined;
  }
}

/** One line of the text around the first match, with the match in sight. */
export function previewOf({ ranges, excerpt }: Pick<Hit, "ranges" | "excerpt">): string {
  const [first] = ranges;
  if (!excerpt || !first) {
    return "";
  }
  const at = Math.max(0, first[0] - excerpt.start);
  const before = excerpt.text.slice(0, at).replace(/\s+/gu, " ");
  const cut = before.length > LEAD || excerpt.start > 0;
  const lead = before.slice(-LEAD).replace(/^[\uDC00-\uDFFF]/u, "");
  return `${cut ? "…" : ""}${oneLine(lead + excerpt.text.slice(at), LENGTH)}`;
}
