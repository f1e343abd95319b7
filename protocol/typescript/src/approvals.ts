/** Answering the requests for approvals of a session, as a program's handler decides. */

import type { TimeleapClient } from "./client.js";
import type { Disposable } from "./emitter.js";
import { TimeleapError } from "./errors.js";
import type { ApprovalRequest, ApprovalRespondParams } from "./generated/types.js";

/** A decision, with a reason where there is one; undefined: somebody else is to decide. */
export type ApprovalVerdict = Pick<ApprovalRespondParams, "decision" | "reason"> | undefined;

/** Decides a request. The signal is aborted once the request needs no decision any more. */
export type ApprovalHandler = (approval: ApprovalRequest, resolved: AbortSignal) => Promise<ApprovalVerdict> | ApprovalVerdict;

/**
 * Calls a handler with each request for an approval of an open session once, those that wait already included.
 *
 * @param failed Gets what the handler throws, and what the server refuses other than for being too late.
 */
export function handleApprovals(
  client: TimeleapClient,
  sessionId: string,
  handler: ApprovalHandler,
  failed: (error: unknown) => void,
): Disposable {
  const known = new Map<string, AbortController>();

  const decide = async (approval: ApprovalRequest, resolved: AbortSignal): Promise<void> => {
    try {
      const verdict = await handler(approval, resolved);
      if (verdict && !resolved.aborted) {
        await client.request("approval/respond", { sessionId, approvalId: approval.approvalId, ...verdict });
      }
    } catch (error) {
      if (!resolved.aborted && !(error instanceof TimeleapError && error.kind === "approvalNotPending")) {
        failed(error);
      }
    }
  };
  const take = (approval: ApprovalRequest): void => {
    if (!known.has(approval.approvalId)) {
      const resolved = new AbortController();
      known.set(approval.approvalId, resolved);
      void decide(approval, resolved.signal);
    }
  };
  const look = (): void => {
    client.request("approval/list", { sessionId }).then(({ approvals }) => approvals.forEach(take), failed);
  };
  const listening = [
    client.onNotification("approval/didRequest", (asked) => asked.sessionId === sessionId && take(asked.approval)),
    client.onNotification("approval/didResolve", (end) => {
      if (end.sessionId === sessionId) {
        known.get(end.approvalId)?.abort();
        known.delete(end.approvalId);
      }
    }),
    client.on("restarted", look),
  ];
  look();
  return {
    dispose: () => {
      listening.forEach((one) => one.dispose());
      known.forEach((resolved) => resolved.abort());
      known.clear();
    },
  };
}
