/** Changes that put another log in the place of the present one: a dry run says what a person is asked about, then they are made. */

import * as vscode from "vscode";
import type { Methods, RewriteResult } from "timeleap-client";
import { whyReadOnly } from "../../shared/text/readOnly.js";
import { Refusal } from "../commands/report.js";
import type { Session } from "../sessions/session.js";

export type Change = "context/revertTo" | "context/restoreTimeline" | "context/deliverDMail" | "context/undo" | "context/redo";
export type ChangeParams<M extends Change> = Omit<Methods[M]["params"], "sessionId" | "restore" | "onConflict">;

export interface Question {
  readonly message: string;
  readonly detail: string;
  readonly button: string;
  /** Whether what goes along may go back while the conversation stays. */
  readonly filesOnly?: boolean;
}

export interface Changed<M extends Change> {
  readonly done: Methods[M]["result"];
  /** Stands behind what is said of it: what went along. */
  readonly also: string;
}

/**
 * Makes a change. Undefined: the conversation stays.
 *
 * @param ask What a person is asked, from the dry run.
 * @param asks Whether a person is asked at any rate, not only where something of theirs would go.
 */
export type Make = <M extends Change>(
  session: Session,
  method: M,
  params: ChangeParams<M>,
  ask: (plan: Methods[M]["result"]) => Question,
  asks: boolean,
) => Promise<Changed<M> | undefined>;

/** A place in a conversation, as `context/revertTo` takes it. */
export type RevertPlace = { readonly checkpointUid: string } | { readonly messageIndex: number };

/** How changes are made; features set more able ways. */
export class Changes {
  /** The conversation alone. */
  make: Make = async (session, method, params, ask, asks) => {
    const plan = await send(session, method, { ...params, dryRun: true });
    const { message, detail, button } = ask(plan);
    if (asks && !(await confirm(message, detail, button))) {
      return undefined;
    }
    const { head } = plan as Pick<RewriteResult, "head">;
    return { done: await send(session, method, { ...params, expectedHead: head }), also: "" };
  };

  /** Goes back in the program whose conversation a session is a copy of. Whether it did. */
  elsewhere: (session: Session, program: string, place: RevertPlace, name: string) => Promise<boolean> = (session) => Promise.reject(new Refusal(whyReadOnly(session)));
}

/** The method and its params belong together; TypeScript cannot see that through a type variable. */
export function send<M extends Change>(session: Session, method: M, params: object, options?: Parameters<Session["request"]>[2]): Promise<Methods[M]["result"]> {
  return session.request<M>(method, params as never, options);
}

/** The editor adds its own Cancel. */
export async function confirm(message: string, detail: string, button: string): Promise<boolean> {
  return (await vscode.window.showWarningMessage(message, { modal: true, detail }, button)) === button;
}
