/** Looking into conversations: documents and comparisons. */

import * as vscode from "vscode";
import type { DiffPoint } from "timeleap-client";
import { commonMessages, differenceByServer, sharedByCheckpoints, type Difference, type Side } from "./comparison.js";
import { uriOf, type Reference, type Selected } from "../../shared/reference.js";
import type { Session } from "../../core/sessions/session.js";
import { exact, messages, oneLine } from "../../shared/text/format.js";
import { roleName } from "../../shared/text/roles.js";
import { gistOf } from "../../shared/text/message.js";
import { checkpointName } from "../../shared/text/happened.js";
import { BeginningNode, CheckpointNode } from "../../core/tree/checkpointNodes.js";
import { MessageNode, ToolCallNode } from "../../core/tree/messageNodes.js";
import { SessionNode } from "../../core/tree/sessionsTree.js";
import { TimelineNode } from "../../core/tree/timelinesTree.js";
import { pickCheckpoint } from "../../core/commands/pick.js";
import type { Handlers, Workbench } from "../../core/commands/register.js";
import { Refusal } from "../../core/commands/report.js";
import { shownSession, target } from "../../core/commands/targets.js";

export function documentCommands(bench: Workbench): Handlers {
  return {
    openDocument: (node) => bench.documents.show(referenceTo(node)),
    openWholeDocument: (node) => openWholeDocument(bench, node),
    compare: (node) => compare(bench, node),
  };
}

/** Of the row's session, else of the shown one. */
async function openWholeDocument(bench: Workbench, node: unknown): Promise<void> {
  if (node instanceof SessionNode) {
    await bench.sessions.withOpen(node.info.sessionId, (session) => bench.documents.showConversation(session));
    return;
  }
  await bench.documents.showConversation(shownSession(bench.sessions));
}

function referenceTo(node: unknown): Reference {
  const found = lookedAt(node);
  if (!found) {
    throw new Refusal(vscode.l10n.t("Select a checkpoint or a message first."));
  }
  return { ...found, format: "md" };
}

function lookedAt(node: unknown): Omit<Reference, "format"> | undefined {
  if (node instanceof TimelineNode) {
    const selected = { kind: "range", from: 0 } as const;
    return { session: node.session.id, timeline: node.timeline.timelineId, selected, title: node.name };
  }
  if (node instanceof CheckpointNode) {
    return at(node, { kind: "checkpoint", uid: node.span.checkpoint.uid }, `#${node.span.checkpoint.id} ${oneLine(node.name, 40)}`);
  }
  if (node instanceof BeginningNode) {
    return at(node, { kind: "range", from: 0, to: node.span.end }, vscode.l10n.t("Beginning"));
  }
  if (node instanceof MessageNode) {
    const { index, message } = node.entry;
    return at(node, { kind: "messages", indexes: [index] }, `${index} ${roleName(message.role)} ${oneLine(gistOf(message), 30)}`);
  }
  if (node instanceof ToolCallNode) {
    const indexes = [node.from.index, ...(node.result ? [node.result.index] : [])];
    return at(node, { kind: "messages", indexes }, `${node.from.index} ${node.call.function.name}`);
  }
  return undefined;
}

function at({ place }: CheckpointNode | BeginningNode | MessageNode | ToolCallNode, selected: Selected, title: string): Omit<Reference, "format"> {
  const { timelineId } = place.log;
  return { session: place.session.id, selected, title, ...(timelineId === undefined ? {} : { timeline: timelineId }) };
}

/** Messages that are the same on both sides and shown nevertheless, for orientation. */
const CONTEXT = 4;

async function compare(bench: Workbench, node: unknown): Promise<void> {
  const compared = await comparedWith(bench, node);
  const { session, side, name } = compared;
  const working = { location: vscode.ProgressLocation.Window, title: vscode.l10n.t("Comparing…") };
  const { common, removed, added } = await vscode.window.withProgress(working, () => differenceOf(bench, compared));
  const from = Math.max(0, common - CONTEXT);
  const timeline = side.timelineId === undefined ? {} : { timeline: side.timelineId };
  const left = uriOf({ session: session.id, selected: { kind: "range", from, to: side.end }, format: "md", title: name, ...timeline });
  const right = uriOf({ session: session.id, selected: { kind: "range", from }, format: "md", title: vscode.l10n.t("Present") });
  const counted = removed === undefined || added === undefined ? "" : ` (${vscode.l10n.t("−{0}, +{1}", exact(removed), messages(added))})`;
  await vscode.commands.executeCommand("vscode.diff", left, right, `${vscode.l10n.t("{0} ↔ Present", name)}${counted}`, { preview: true });
}

/** The server compares where it can: it need not send what it compares. */
async function differenceOf(bench: Workbench, { session, log, side, point }: Compared): Promise<Difference> {
  if (bench.sidecar.serves("context/diff")) {
    return differenceByServer(session, point);
  }
  const present: Side = { end: session.state.context.messageCount };
  const known = log === session.log ? side.end : await sharedByCheckpoints(log, session.log);
  return { common: await commonMessages(session, side, present, known) };
}

interface Compared {
  readonly session: Session;
  readonly log: Session["log"];
  readonly side: Side;
  /** The same, as the server is told. */
  readonly point: DiffPoint;
  readonly name: string;
}

async function comparedWith(bench: Workbench, node: unknown): Promise<Compared> {
  const timeline = target(TimelineNode, node);
  if (timeline) {
    const { timelineId, messageCount } = timeline.timeline;
    const { session } = timeline;
    return { session, log: session.timelines.log(timeline.timeline), side: { timelineId, end: messageCount }, point: { timelineId }, name: timeline.name };
  }
  const row = target(CheckpointNode, node, bench.views.checkpoints);
  if (row) {
    const { session, log } = row.place;
    const of = log.timelineId === undefined ? {} : { timelineId: log.timelineId };
    return { session, log, side: { ...of, end: row.span.checkpoint.messageCount }, point: { checkpointUid: row.span.checkpoint.uid }, name: oneLine(row.name, 40) };
  }
  const session = shownSession(bench.sessions);
  const picked = await pickCheckpoint(session, vscode.l10n.t("Compare which checkpoint with the present?"));
  if (!picked) {
    throw new vscode.CancellationError();
  }
  return { session, log: session.log, side: { end: picked.messageCount }, point: { checkpointUid: picked.uid }, name: oneLine(checkpointName(picked), 40) };
}
