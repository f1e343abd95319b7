/**
 * What the page and the extension host tell each other. Everything of a conversation goes to the page as text with a known shape and
 * size: the page never sees a record as a program wrote it.
 */

import type { Sheet } from "../../shared/sheet.js";

export type ShownPart =
  /** `cut`: characters that the whole text has, where this is only its beginning. */
  | { readonly kind: "text" | "think"; readonly text: string; readonly cut?: number }
  /** A `data:` URL of a picture. */
  | { readonly kind: "picture"; readonly url: string }
  /** A part that cannot be shown, as text. */
  | { readonly kind: "other"; readonly type: string; readonly text: string };

export interface ShownCall {
  readonly id: string;
  readonly name: string;
  /** As the model wrote them. */
  readonly given: string;
  readonly cut?: number;
}

export interface ShownMessage {
  readonly index: number;
  readonly role: string;
  readonly name?: string;
  readonly parts: readonly ShownPart[];
  readonly calls: readonly ShownCall[];
  /** The call that it answers. */
  readonly answers?: string;
  /** The answer tells of a failure. */
  readonly failed?: boolean;
}

export interface ShownCheckpoint {
  readonly uid: string;
  readonly id: number;
  /** Messages before it. */
  readonly at: number;
  readonly tokens: number;
  readonly name: string;
  readonly createdAt?: string;
  /** Failed calls of its span, where the server tells. */
  readonly errors?: number;
  /** What a person said begins its span. */
  readonly turn?: true;
  /** The files are kept as they were at it. */
  readonly saved?: true;
  /** Files that changed since the checkpoint before it. */
  readonly changed?: number;
  /** Those that changed after it, where they are known without asking. */
  readonly files?: readonly ShownFile[];
}

/** A file of the workspace that changed. */
export interface ShownFile {
  readonly kind: "added" | "modified" | "deleted" | "type" | "mode";
  readonly path: string;
  readonly binary?: true;
}

/** What changed in the files from a checkpoint to a later one; `to` absent: until now. */
export interface FileSpan {
  readonly from: string;
  readonly to?: string;
}

export function spanKey({ from, to = "" }: FileSpan): string {
  return `${from}>${to}`;
}

export interface ShownTimeline {
  readonly id: string;
  readonly name: string;
  readonly reason: string;
  readonly createdAt?: string;
  readonly messages: number;
  /** How many messages it begins with that the present has too; absent: not known yet. */
  readonly common?: number;
}

/** How the session is opened again, with the window. */
export interface Reopening {
  readonly sessionId: string;
  /** Of a folder outside the store. */
  readonly path?: string;
}

/** What VS Code keeps of a page and gives back after the window was reloaded. */
export interface Kept extends Reopening {
  readonly timeline?: string;
  /** The message at the top; absent: the newest. */
  readonly index?: number;
}

/** Facts about the session, and which of its logs is shown. */
export interface Facts {
  readonly session: Reopening;
  readonly title: string;
  /** Counts rewrites of what is shown: what was sent before the last is no longer true. */
  readonly epoch: number;
  /** Messages at the beginning that are as they were before the last rewrite. */
  readonly keep: number;
  readonly messages: number;
  readonly tokens: number;
  readonly checkpoints: number;
  readonly writable: boolean;
  readonly canUndo: number;
  readonly canRedo: number;
  /** The timeline that is shown; absent: the present. */
  readonly timeline?: string;
  /** What the model is told before the first message; cut where it is long. */
  readonly systemPrompt?: string;
  /** A page that is a file of its own: nobody is there who could do anything. */
  readonly exported?: true;
}

/** A state of a conversation to compare: of this session where none is named; of the present log, where no timeline is. */
export interface Point {
  readonly session?: string;
  readonly timelineId?: string;
  /** So many messages of it; absent: all. */
  readonly end?: number;
  /** Absent: what it is of tells. */
  readonly name?: string;
  readonly tokens?: number;
}

/** Which text of a message: a part's, or a call's arguments. */
export interface TextPlace {
  readonly index: number;
  readonly part?: number;
  readonly call?: number;
}

export interface Hit {
  readonly index: number;
  readonly timeline?: string;
  readonly preview: string;
}

export type ToPage =
  | { readonly kind: "facts"; readonly facts: Facts }
  | { readonly kind: "messages"; readonly epoch: number; readonly from: number; readonly to: number; readonly messages: readonly ShownMessage[] }
  /** Oldest first; `more`: others follow. */
  | { readonly kind: "checkpoints"; readonly epoch: number; readonly checkpoints: readonly ShownCheckpoint[]; readonly more: boolean }
  | { readonly kind: "checkpoint"; readonly checkpoint: ShownCheckpoint }
  | { readonly kind: "timelines"; readonly timelines: readonly ShownTimeline[] }
  | { readonly kind: "usage"; readonly epoch: number; readonly usage: readonly (readonly [at: number, tokens: number])[] }
  /** Show the message of this index; `query`: words to mark in it. */
  | { readonly kind: "go"; readonly index: number; readonly query?: string }
  | { readonly kind: "hits"; readonly search: number; readonly hits: readonly Hit[]; readonly more: boolean; readonly problem?: string }
  | {
      readonly kind: "comparison";
      readonly names: readonly [from: string, to: string];
      readonly common: number;
      readonly removed: readonly ShownMessage[];
      readonly added: readonly ShownMessage[];
      readonly removedCount: number;
      readonly addedCount: number;
      /** Absent: nobody has counted. */
      readonly tokens?: readonly [from: number, to: number];
    }
  /** `more`: how many others there are; -1: nobody has counted. `problem`: why there are none. */
  | { readonly kind: "files"; readonly span: FileSpan; readonly files: readonly ShownFile[]; readonly more: number; readonly problem?: string }
  /** Both states of a file; `problem`: why they are not shown. */
  | { readonly kind: "fileDiff"; readonly span: FileSpan; readonly file: number; readonly before: string; readonly after: string; readonly problem?: string }
  /** A piece of a text that the page has the beginning of. */
  | { readonly kind: "text"; readonly epoch: number; readonly place: TextPlace; readonly from: number; readonly text: string; readonly whole: number }
  | { readonly kind: "sheet"; readonly sheet: Sheet }
  /** What stands above the conversation; none: all is well. */
  | { readonly kind: "trouble"; readonly text?: string; readonly gone?: boolean };

/** What can be done at a message. */
export type Action = "revert" | "again" | "fork" | "pin" | "markdown" | "json" | "compare" | "note";

/** Those that there are at a message; `live`: it can be gone back to, and something can be left there. */
export function actionsAt(role: string, { live, forkable }: { readonly live: boolean; readonly forkable: boolean }): Action[] {
  const going: Action[] = role === "user" ? ["revert", "again"] : ["revert"];
  return [...(live ? going : []), ...(forkable ? (["fork"] as const) : []), ...(live ? (["pin", "note"] as const) : []), "compare", "markdown", "json"];
}

export type FromPage =
  | { readonly kind: "ready" }
  | { readonly kind: "read"; readonly epoch: number; readonly from: number; readonly to: number }
  | { readonly kind: "act"; readonly action: Action; readonly index: number; readonly selection?: string }
  | { readonly kind: "checkpoint"; readonly action: "revert" | "fork"; readonly uid: string }
  | { readonly kind: "step"; readonly direction: "undo" | "redo" }
  | { readonly kind: "restore"; readonly timeline: string }
  | { readonly kind: "log"; readonly timeline?: string; readonly index?: number }
  | { readonly kind: "search"; readonly search: number; readonly query: string }
  | { readonly kind: "compare"; readonly from: Point; readonly to: Point }
  /** With what, is asked. */
  | { readonly kind: "compareWith"; readonly from: Point }
  | { readonly kind: "files"; readonly span: FileSpan }
  | { readonly kind: "fileDiff"; readonly span: FileSpan; readonly file: number }
  /** In the editor's own view of differences. */
  | { readonly kind: "openDiff"; readonly span: FileSpan; readonly file: number }
  | { readonly kind: "text"; readonly epoch: number; readonly place: TextPlace; readonly from: number }
  /** The message at the top, to come back to. */
  | { readonly kind: "top"; readonly index: number };
