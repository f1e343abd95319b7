/** Rows of a conversation: messages, and tool calls with their results. */

import * as vscode from "vscode";
import type { HistoryMessage, ToolCall } from "timeleap-client";
import type { Workbench } from "../core/commands/register.js";
import { notPresent, revert, sessionToGoBackIn } from "../core/restore/timeTravel.js";
import type { Place, Range } from "../core/tree/parts.js";
import { exact, listed, oneLine } from "../shared/text/format.js";
import { argumentsOf, gistOf, noteOf, rowsOf, type Row } from "../shared/text/message.js";
import { roleName } from "../shared/text/roles.js";
import { MoreNode, TreeNode, treeItem } from "../core/tree/node.js";

/** How many messages of a range have been asked to be shown; survives refreshes, which rebuild nodes. */
export type Shown = Map<string, number>;

/** How much of a call's arguments a row shows: more than a side bar has room for, which the editor cuts. */
const GIVEN = 120;

/** Characters of a message that name it in a question. */
const NAMED = 50;

const ICONS: Readonly<Record<string, string>> = { user: "account", assistant: "sparkle", tool: "tools", system: "gear" };

/** The rows of a range of messages: a page at first, and one more each time it is asked for. */
export async function messageRows(
  parent: TreeNode,
  place: Place,
  range: Range,
  shown: Shown,
  refresh: () => void,
): Promise<TreeNode[]> {
  const count = shown.get(parent.id);
  const messages = await place.log.messages(range.start, range.end, count);
  const nodes: TreeNode[] = rowsOf(messages).map((row) => nodeOf(row, parent, place));
  const left = range.end - range.start - messages.length;
  if (left > 0) {
    const show = (): Promise<void> => {
      shown.set(parent.id, messages.length + 100);
      refresh();
      return Promise.resolve();
    };
    nodes.push(new MoreNode(parent, vscode.l10n.t("Show More"), show));
  }
  return nodes;
}

function nodeOf(row: Row, parent: TreeNode, place: Place): TreeNode {
  return row.kind === "message"
    ? new MessageNode(parent, place, row.entry)
    : new ToolCallNode(parent, place, row.call, row.from, row.result);
}

function show(node: TreeNode): vscode.Command {
  return { command: "timeleap.openConversation", title: "", arguments: [node] };
}

export class MessageNode extends TreeNode {
  constructor(
    parent: TreeNode,
    readonly place: Place,
    readonly entry: HistoryMessage,
  ) {
    super(parent, `${parent.id}/m${entry.index}`);
  }

  override restore(bench: Workbench, asks: boolean): Promise<void> {
    return goBack(bench, this.place, this.entry, gistOf(this.entry.message), asks);
  }

  item(): vscode.TreeItem {
    const { role } = this.entry.message;
    const note = noteOf(this.entry.message);
    const gist = oneLine(note ?? gistOf(this.entry.message)) || vscode.l10n.t("(empty)");
    const speaker = note === undefined ? roleName(role) : vscode.l10n.t("D-Mail");
    return treeItem(this.id, {
      label: gist,
      ...(note === undefined ? {} : { description: speaker }),
      icon: note === undefined ? (ICONS[role] ?? "comment") : "mail-read",
      tooltip: `${speaker} · #${exact(this.entry.index)}\n\n${gistOf(this.entry.message).slice(0, 1_000)}`,
      spoken: `${speaker}: ${gist}`,
      context: this.place.log.timelineId === undefined ? "message" : "timelineMessage",
      command: show(this),
    });
  }
}

export class ToolCallNode extends TreeNode {
  constructor(
    parent: TreeNode,
    readonly place: Place,
    readonly call: ToolCall,
    readonly from: HistoryMessage,
    readonly result: HistoryMessage | undefined,
  ) {
    super(parent, `${parent.id}/m${from.index}/t${call.id}`);
  }

  override restore(bench: Workbench, asks: boolean): Promise<void> {
    return goBack(bench, this.place, this.from, this.call.function.name, asks);
  }

  item(): vscode.TreeItem {
    const name = this.call.function.name;
    const given = oneLine(argumentsOf(this.call), GIVEN);
    const result = this.result ? oneLine(gistOf(this.result.message)) || vscode.l10n.t("(empty)") : vscode.l10n.t("no result");
    const label = given === "" ? name : `${name}(${given})`;
    return treeItem(this.id, {
      label,
      description: `→ ${result}`,
      icon: this.result ? "tools" : "loading",
      tooltip: `${name}\n${argumentsOf(this.call).slice(0, 500)}\n\n→ ${this.result ? gistOf(this.result.message).slice(0, 1_000) : result}`,
      spoken: `${roleName("tool")}: ${listed([label, result])}`,
      context: this.place.log.timelineId === undefined ? "toolCall" : "timelineToolCall",
      command: show(this),
    });
  }
}

/** To before a message of the present log. */
async function goBack(bench: Workbench, place: Place, { index, message }: HistoryMessage, gist: string, asks: boolean): Promise<void> {
  const session = sessionToGoBackIn(bench);
  if (place.session !== session || place.log.timelineId !== undefined) {
    throw notPresent();
  }
  await revert(bench, session, { messageIndex: index }, oneLine(gist, NAMED) || roleName(message.role), asks);
}
