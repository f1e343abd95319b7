/** What agents of the open sessions ask for, and nobody has decided yet. */

import * as vscode from "vscode";
import type { ApprovalDidResolve, ApprovalRequest } from "timeleap-client";
import { Disposables } from "../../shared/lifecycle.js";
import type { Workbench } from "../../core/commands/register.js";
import type { Sidecar } from "../../core/server/sidecar.js";
import type { Session } from "../../core/sessions/session.js";
import type { Sessions } from "../../core/sessions/sessions.js";

export interface PendingApproval {
  readonly session: Session;
  readonly request: ApprovalRequest;
}

export type Resolved = Pick<ApprovalDidResolve, "approvalId" | "decision" | "cause">;

/** What the commands of this feature work with. */
export interface Asking extends Workbench {
  readonly approvals: Approvals;
}

export class Approvals extends Disposables {
  private readonly changed = this.register(new vscode.EventEmitter<undefined>());
  /** Something waits that did not, or does not any more. */
  readonly onDidChange = this.changed.event;
  private readonly resolved = this.register(new vscode.EventEmitter<Resolved>());
  readonly onDidResolve = this.resolved.event;
  /** By session and by id, in the order in which they were asked for. */
  private readonly waiting = new Map<string, Map<string, ApprovalRequest>>();
  /** Sessions whose list has been asked for. */
  private readonly listed = new Set<Session>();

  constructor(
    private readonly sidecar: Sidecar,
    private readonly sessions: Sessions,
  ) {
    super();
    this.register(
      sidecar.onNotification("approval/didRequest", ({ sessionId, approval }) => {
        this.of(sessionId).set(approval.approvalId, approval);
        this.changed.fire(undefined);
      }),
    );
    this.register(sidecar.onNotification("approval/didResolve", (resolved) => this.settle(resolved.sessionId, resolved)));
    this.register(sessions.onDidChangeList(() => this.follow()));
    this.register(
      sidecar.onDidConnect(() => {
        this.listed.clear();
        this.waiting.clear();
        this.follow();
        this.changed.fire(undefined);
      }),
    );
  }

  /** Those of one session, or of all open ones; oldest first. */
  pending(session?: Session): PendingApproval[] {
    const all = (session ? [session] : this.sessions.all).flatMap((one) => [...(this.waiting.get(one.id)?.values() ?? [])].map((request) => ({ session: one, request })));
    return all.sort((one, other) => one.request.requestedAt.localeCompare(other.request.requestedAt));
  }

  isPending({ session, request }: PendingApproval): boolean {
    return this.waiting.get(session.id)?.has(request.approvalId) ?? false;
  }

  /** It needs no decision any more. */
  settle(sessionId: string, resolved: Resolved): void {
    if (this.waiting.get(sessionId)?.delete(resolved.approvalId)) {
      this.resolved.fire(resolved);
      this.changed.fire(undefined);
    }
  }

  private of(sessionId: string): Map<string, ApprovalRequest> {
    const requests = this.waiting.get(sessionId) ?? new Map<string, ApprovalRequest>();
    this.waiting.set(sessionId, requests);
    return requests;
  }

  /** What waited before a session was opened here is not notified. */
  private follow(): void {
    const open = new Set(this.sessions.all);
    for (const session of open) {
      if (!this.listed.has(session)) {
        this.listed.add(session);
        this.list(session).catch(() => this.listed.delete(session));
      }
    }
    for (const session of this.listed) {
      if (!open.has(session)) {
        this.listed.delete(session);
        this.drop(session.id);
      }
    }
  }

  private async list(session: Session): Promise<void> {
    // What is decided while the list is on its way must not come back with it.
    const gone = new Set<string>();
    const told = this.sidecar.onNotification("approval/didResolve", ({ approvalId }) => gone.add(approvalId));
    try {
      const { approvals } = await session.request("approval/list", {});
      const later = [...this.of(session.id).values()];
      const requests = new Map([...approvals, ...later].filter(({ approvalId }) => !gone.has(approvalId)).map((request) => [request.approvalId, request]));
      this.waiting.set(session.id, requests);
      if (requests.size > 0) {
        this.changed.fire(undefined);
      }
    } finally {
      told.dispose();
    }
  }

  private drop(sessionId: string): void {
    const requests = this.waiting.get(sessionId);
    this.waiting.delete(sessionId);
    if (requests && requests.size > 0) {
      this.changed.fire(undefined);
    }
  }
}
