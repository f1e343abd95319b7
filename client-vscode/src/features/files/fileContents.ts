/** Files as a snapshot has them, for the editor to show: text, pictures and whatever else, read only. */

import * as vscode from "vscode";
import type { FilePath } from "timeleap-client";
import { Disposables } from "../../shared/lifecycle.js";
import { isTimeleapError, messageOf } from "../../shared/errors.js";
import type { Session } from "../../core/sessions/session.js";
import type { Sessions } from "../../core/sessions/sessions.js";
import { named, shownPath } from "../../shared/text/paths.js";

export const FILES_SCHEME = "timeleap-files";

/** Bytes asked for at a time. */
export const PIECE = 1024 * 1024;

/** A file in a snapshot; without one the file that was not there yet, or is no longer. */
export interface FileReference extends FilePath {
  readonly session: string;
  readonly snapshot?: string;
}

/** The path is for the eye and for the language; what is shown is in the query. */
export function fileUri({ session, snapshot, ...file }: FileReference): vscode.Uri {
  const query = { session, ...(snapshot === undefined ? {} : { snapshot }), ...named(file) };
  return vscode.Uri.from({ scheme: FILES_SCHEME, path: `/${shownPath(file)}`, query: JSON.stringify(query) });
}

/** Undefined: not one of ours. */
export function fileReferenceOf(uri: vscode.Uri): FileReference | undefined {
  try {
    const { session, snapshot, path, pathEncoding, root } = JSON.parse(uri.query) as Partial<FileReference>;
    if (uri.scheme !== FILES_SCHEME || typeof session !== "string" || typeof path !== "string") {
      return undefined;
    }
    return {
      session,
      path,
      ...(typeof snapshot === "string" ? { snapshot } : {}),
      ...(pathEncoding === "percent" ? { pathEncoding } : {}),
      ...(typeof root === "string" ? { root } : {}),
    };
  } catch {
    return undefined;
  }
}

export class FileContents extends Disposables implements vscode.FileSystemProvider {
  // A snapshot never changes.
  readonly onDidChangeFile = this.register(new vscode.EventEmitter<vscode.FileChangeEvent[]>()).event;

  constructor(private readonly sessions: Sessions) {
    super();
    this.register(vscode.workspace.registerFileSystemProvider(FILES_SCHEME, this, { isCaseSensitive: true, isReadonly: true }));
  }

  async stat(uri: vscode.Uri): Promise<vscode.FileStat> {
    const { bytes } = await this.read(uri, 0, 1);
    return { type: vscode.FileType.File, ctime: 0, mtime: 0, size: bytes, permissions: vscode.FilePermission.Readonly };
  }

  async readFile(uri: vscode.Uri): Promise<Uint8Array> {
    const pieces: Uint8Array[] = [];
    let length = 0;
    for (;;) {
      const { content, bytes } = await this.read(uri, length, PIECE);
      pieces.push(content);
      length += content.length;
      if (length >= bytes || content.length === 0) {
        return Buffer.concat(pieces);
      }
    }
  }

  watch(): vscode.Disposable {
    return new vscode.Disposable(() => undefined);
  }

  readDirectory(uri: vscode.Uri): never {
    throw vscode.FileSystemError.FileNotADirectory(uri);
  }

  createDirectory(uri: vscode.Uri): never {
    throw vscode.FileSystemError.NoPermissions(uri);
  }

  writeFile(uri: vscode.Uri): never {
    throw vscode.FileSystemError.NoPermissions(uri);
  }

  delete(uri: vscode.Uri): never {
    throw vscode.FileSystemError.NoPermissions(uri);
  }

  rename(uri: vscode.Uri): never {
    throw vscode.FileSystemError.NoPermissions(uri);
  }

  /** Of a session that is not open, it is opened for that long. */
  private async read(uri: vscode.Uri, offset: number, length: number): Promise<{ content: Uint8Array; bytes: number }> {
    const reference = fileReferenceOf(uri);
    if (!reference) {
      throw vscode.FileSystemError.FileNotFound(uri);
    }
    const { session, snapshot, ...file } = reference;
    if (snapshot === undefined) {
      return { content: new Uint8Array(), bytes: 0 };
    }
    const read = (opened: Session) => opened.request("files/read", { snapshot, ...file, offset, length });
    try {
      const { content, bytes } = await this.sessions.withOpen(session, read);
      return { content: Buffer.from(content, "base64"), bytes };
    } catch (error) {
      throw isTimeleapError(error, "snapshotNotFound") || isTimeleapError(error, "invalidParams")
        ? vscode.FileSystemError.FileNotFound(messageOf(error))
        : vscode.FileSystemError.Unavailable(messageOf(error));
    }
  }
}
