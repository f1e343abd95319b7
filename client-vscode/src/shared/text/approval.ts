/** What is asked for, as it is shown: other programs' words, which must not look like anything but text. */

import * as vscode from "vscode";
import type { ApprovalRequest } from "timeleap-client";
import { fullTime, oneLine } from "./format.js";
import { headed } from "./detail.js";

/** How much of it a question shows. */
export const SHOWN = 240;

/** One line in which every character shows and none changes the order of others. */
export function visible(text: string, length = SHOWN): string {
  return oneLine(text.replace(/[\u0000-\u0008\u000e-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/gu, "�"), length);
}

/** What exactly is to be done: the description and the detail, on one line. */
export function gistOfApproval(request: Pick<ApprovalRequest, "description" | "detail">, length = SHOWN): string {
  return visible(whole(request), length);
}

/** Whether a question says all there is. */
export function isShownWhole(request: Pick<ApprovalRequest, "description" | "detail">): boolean {
  return gistOfApproval(request) === whole(request);
}

function whole({ description, detail }: Pick<ApprovalRequest, "description" | "detail">): string {
  return [description?.trim() ?? "", detail === undefined ? "" : JSON.stringify(detail)].filter((text) => text !== "").join(" – ");
}

/** All of it, for a document. */
export function approvalText(request: ApprovalRequest, session: string): string {
  const { action, description, detail, toolCallId, requestedAt, client } = request;
  const facts = [
    vscode.l10n.t("“{0}” asks for your approval: {1}", visible(session, 1_000), visible(action, 1_000)),
    fullTime(requestedAt),
    ...(client === undefined ? [] : [vscode.l10n.t("from {0}", visible(client, 1_000))]),
    ...(toolCallId === undefined ? [] : [headed(vscode.l10n.t("Tool"), visible(toolCallId, 1_000))]),
  ];
  const parts = [facts.join("\n"), ...(description === undefined ? [] : [description]), ...(detail === undefined ? [] : [JSON.stringify(detail, undefined, 2)])];
  return `${parts.join("\n\n")}\n`;
}
