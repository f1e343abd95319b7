/** The files that changed between two checkpoints, for the page: their names, their lines, and the editor's own view of both states. */

import * as vscode from "vscode";
import type { Checkpoint, FileChange } from "timeleap-client";
import { messageOf } from "../../shared/errors.js";
import { filesOf } from "../../kit/sessionFiles.js";
import type { Session } from "../../core/sessions/session.js";
import { withDetail } from "../../shared/text/detail.js";
import { diskPath, named, shownPath } from "../../shared/text/paths.js";
import type { FileRange } from "../../kit/fileNodes.js";
import type { FileSpan, ShownFile, ToPage } from "./wire.js";

/** Files that are named, and bytes of a state that is shown by its lines. */
const MOST_FILES = 500;
const MOST_BYTES = 256 * 1024;

type Told<K extends ToPage["kind"]> = Extract<ToPage, { kind: K }>;

export class Changes {
  /** @param checkpointOf what the page names by its uid */
  constructor(
    private readonly session: Session,
    private readonly checkpointOf: (uid: string) => Checkpoint | undefined,
  ) {}

  async list(span: FileSpan): Promise<Told<"files">> {
    try {
      const range = this.range(span);
      const pages = range && filesOf(this.session).changes(range.from, range.to);
      let found = pages ? await pages.list() : [];
      while (pages?.hasMore && found.length < MOST_FILES) {
        await pages.more();
        found = await pages.list();
      }
      return { kind: "files", span, files: found.map(shownFile), more: pages?.hasMore ? -1 : 0 };
    } catch (error) {
      return { kind: "files", span, files: [], more: 0, problem: withDetail(vscode.l10n.t("The files cannot be used."), messageOf(error)) };
    }
  }

  async diff(span: FileSpan, file: number): Promise<Told<"fileDiff">> {
    const found = { kind: "fileDiff", span, file, before: "", after: "" } as const;
    const range = this.range(span);
    const change = range && (await this.changeAt(range, file));
    if (!range || !change) {
      return { ...found, problem: vscode.l10n.t("This cannot be shown.") };
    }
    if (change.binary || Math.max(change.bytesFrom ?? 0, change.bytesTo ?? 0) > MOST_BYTES) {
      return { ...found, problem: vscode.l10n.t("This is no text, or too long to be shown here; the diff editor shows it.") };
    }
    try {
      const before = change.kind === "added" ? "" : await this.saved(range.from, change);
      const after = change.kind === "deleted" ? "" : range.to === undefined ? await this.onDisk(change) : await this.saved(range.to, change);
      return { ...found, before, after };
    } catch (error) {
      return { ...found, problem: withDetail(vscode.l10n.t("This cannot be shown."), messageOf(error)) };
    }
  }

  async open(span: FileSpan, file: number): Promise<void> {
    const range = this.range(span);
    const change = range && (await this.changeAt(range, file));
    if (range && change) {
      await vscode.commands.executeCommand("timeleap.openFileChange", { range, change });
    }
  }

  /** Undefined: nothing is kept of the files at one of both. */
  private range({ from, to }: FileSpan): FileRange | undefined {
    const snapshot = (uid: string): string | undefined => this.checkpointOf(uid)?.files?.snapshot;
    const [before, after] = [snapshot(from), to === undefined ? undefined : snapshot(to)];
    return before === undefined || (to !== undefined && after === undefined) ? undefined : { session: this.session, from: before, to: after };
  }

  private async changeAt({ from, to }: FileRange, file: number): Promise<FileChange | undefined> {
    return (await filesOf(this.session).changes(from, to).list())[file];
  }

  private async saved(snapshot: string, change: FileChange): Promise<string> {
    const { content } = await this.session.request("files/read", { snapshot, ...named(change), offset: 0, length: MOST_BYTES });
    return Buffer.from(content, "base64").toString("utf8");
  }

  private async onDisk(change: FileChange): Promise<string> {
    const path = diskPath(change, this.session.state.files?.roots[0]);
    if (path === undefined) {
      throw new Error(vscode.l10n.t("The editor cannot open “{0}” from the disk: its name is not valid UTF-8, or it is not inside the workspace.", shownPath(change)));
    }
    return Buffer.from(await vscode.workspace.fs.readFile(vscode.Uri.file(path))).toString("utf8");
  }
}

function shownFile(change: FileChange): ShownFile {
  return { kind: change.kind, path: shownPath(change), ...(change.binary ? { binary: true } : {}) };
}
