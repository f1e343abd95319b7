/** Two states of conversations, compared for the page. */

import * as vscode from "vscode";
import type { HistoryMessage } from "timeleap-client";
import type { Session } from "../../core/sessions/session.js";
import { oneLine, tokensUsed } from "../../shared/text/format.js";
import { timelineName } from "../../kit/branches.js";
import { shownMessage } from "./shown.js";
import type { Point, ShownMessage, ToPage } from "./wire.js";
import { headed } from "../../shared/text/detail.js";

/** Messages of a side that are shown; the rest is counted. */
const SHOWN = 40;
/** Messages of two sessions that are compared at once, and characters of a name. */
const PAGE = 200;
const NAME = 60;

/** The first `end` messages of a log. */
interface Side {
  readonly session: Session;
  readonly timelineId?: string;
  readonly end: number;
  readonly name: string;
  /** Undefined: nobody has counted. */
  readonly tokens: number | undefined;
}

/** @param from of `one`, as `to` is of `other`; both may be of one session */
export async function compared(one: Session, from: Point, other: Session, to: Point): Promise<Extract<ToPage, { kind: "comparison" }>> {
  const [left, right] = await Promise.all([sideOf(one, from, one !== other), sideOf(other, to, one !== other)]);
  const common = await commonMessages(left, right);
  const [removed, added] = await Promise.all([after(left, common), after(right, common)]);
  const counts = { removedCount: left.end - common, addedCount: right.end - common };
  const tokens = left.tokens === undefined || right.tokens === undefined ? {} : { tokens: [left.tokens, right.tokens] as const };
  return { kind: "comparison", names: [left.name, right.name], common, removed, added, ...counts, ...tokens };
}

async function sideOf(session: Session, { timelineId, end, name, tokens }: Point, named: boolean): Promise<Side> {
  const { context } = session.state;
  const all = timelineId === undefined ? undefined : await timelineOf(session, timelineId);
  const most = timelineId === undefined ? context.messageCount : (all?.messageCount ?? 0);
  const whole = all ? timelineName(all) : vscode.l10n.t("Present");
  const shown = named ? headed(session.name, name ?? whole) : (name ?? whole);
  const counted = tokens ?? (timelineId === undefined && end === undefined ? tokensUsed(context) : undefined);
  return { session, ...(timelineId === undefined ? {} : { timelineId }), end: Math.min(most, end ?? most), name: oneLine(shown, NAME), tokens: counted };
}

async function timelineOf(session: Session, id: string) {
  const { timelines } = await session.request("context/listTimelines", { limit: 1_000 });
  return timelines.find(({ timelineId }) => timelineId === id);
}

/** The server compares logs of one session without sending them. What two sessions say is compared message by message. */
async function commonMessages(one: Side, other: Side): Promise<number> {
  const end = Math.min(one.end, other.end);
  if (one.session === other.session) {
    const { common } = await one.session.request("context/diff", { from: pointOf(one), to: pointOf(other), limit: 1, maxBytes: 1 });
    return Math.min(end, common);
  }
  let common = 0;
  while (common < end) {
    const [these, those] = await Promise.all([page(one, common, end), page(other, common, end)]);
    const length = Math.min(these.length, those.length);
    const same = these.slice(0, length).findIndex((entry, index) => !isSame(entry, those[index]));
    if (length === 0 || same !== -1) {
      return common + Math.max(0, same);
    }
    common += length;
  }
  return common;
}

function pointOf({ timelineId }: Side): { readonly timelineId?: string } {
  return timelineId === undefined ? {} : { timelineId };
}

async function page({ session, timelineId }: Side, from: number, to: number, limit = PAGE): Promise<HistoryMessage[]> {
  const { messages } = await session.request("context/getHistory", { from, to, limit, ...(timelineId === undefined ? {} : { timelineId }) });
  return messages;
}

/** The first messages that the other side has not. */
async function after(side: Side, common: number): Promise<ShownMessage[]> {
  return common < side.end ? (await page(side, common, side.end, SHOWN)).map(shownMessage) : [];
}

/** Logs keep the order of keys, so a message that was carried over has the same text. */
function isSame(one: HistoryMessage, other: HistoryMessage | undefined): boolean {
  return other !== undefined && JSON.stringify(one.message) === JSON.stringify(other.message);
}
