/** What a read-only document shows, as its URI says it. */

import * as vscode from "vscode";

export const SCHEME = "timeleap";

/** Which messages of a session. */
export type Selected =
  /** Between a checkpoint and the next. */
  | { readonly kind: "checkpoint"; readonly uid: string }
  /** By index; `to` is exclusive, and absent for the end. */
  | { readonly kind: "range"; readonly from: number; readonly to?: number }
  | { readonly kind: "messages"; readonly indexes: readonly number[] };

export interface Reference {
  readonly session: string;
  /** Absent: the live log. */
  readonly timeline?: string;
  readonly selected: Selected;
  readonly format: "md" | "json";
  /** Of the tab. */
  readonly title: string;
}

export function uriOf(reference: Reference): vscode.Uri {
  const { title, ...query } = reference;
  return vscode.Uri.from({ scheme: SCHEME, path: `/${fileName(title)}.${reference.format}`, query: JSON.stringify(query) });
}

/** The title that a document was given. */
export function titleOf({ path }: vscode.Uri): string {
  return path.replace(/^\//u, "").replace(/\.(?:md|json)$/u, "");
}

/** Of a tab. */
export function fileName(title: string): string {
  return title.replace(/[/\\?#:*"<>|\s]+/gu, " ").trim() || "conversation";
}

/** Undefined: not one of ours. */
export function referenceOf(uri: vscode.Uri): Omit<Reference, "title"> | undefined {
  try {
    const { session, selected, format, timeline } = JSON.parse(uri.query) as Partial<Reference>;
    const whole = uri.scheme === SCHEME && typeof session === "string" && selected !== undefined && (format === "md" || format === "json");
    return whole ? { session, selected, format, ...(timeline === undefined ? {} : { timeline }) } : undefined;
  } catch {
    return undefined;
  }
}
