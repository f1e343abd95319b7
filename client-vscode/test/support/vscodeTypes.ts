/** The plain values of the `vscode` module: positions, addresses, events, and the numbers behind its names. */

import { pathToFileURL } from "node:url";

type Listener<T> = (value: T) => unknown;

export class Disposable {
  constructor(private readonly end: () => void) {}

  static from(...all: readonly { dispose(): unknown }[]): Disposable {
    return new Disposable(() => all.forEach((one) => one.dispose()));
  }

  dispose(): void {
    this.end();
  }
}

export class EventEmitter<T> {
  private readonly listeners = new Set<Listener<T>>();

  readonly event = (listener: Listener<T>): Disposable => {
    this.listeners.add(listener);
    return new Disposable(() => this.listeners.delete(listener));
  };

  fire(value: T): void {
    for (const listener of [...this.listeners]) {
      listener(value);
    }
  }

  dispose(): void {
    this.listeners.clear();
  }
}

export class CancellationError extends Error {}

export class CancellationTokenSource {
  private readonly emitter = new EventEmitter<undefined>();
  readonly token = { isCancellationRequested: false, onCancellationRequested: this.emitter.event };

  cancel(): void {
    this.token.isCancellationRequested = true;
    this.emitter.fire(undefined);
  }

  dispose(): void {
    this.emitter.dispose();
  }
}

export class FileDecoration {
  constructor(
    readonly badge?: string,
    readonly tooltip?: string,
    readonly color?: ThemeColor,
  ) {}
}

export class ThemeColor {
  constructor(readonly id: string) {}
}

export class ThemeIcon {
  constructor(
    readonly id: string,
    readonly color?: ThemeColor,
  ) {}
}

export class TabInputText {
  constructor(readonly uri: Uri) {}
}

export class CodeLens {
  constructor(
    readonly range: unknown,
    readonly command: unknown,
  ) {}
}

export class MarkdownString {
  isTrusted = false;
  supportThemeIcons = false;

  constructor(public value = "") {}

  appendText(text: string): this {
    this.value += text;
    return this;
  }

  appendMarkdown(text: string): this {
    this.value += text;
    return this;
  }

  appendCodeblock(text: string): this {
    this.value += `\n\`\`\`\n${text}\n\`\`\`\n`;
    return this;
  }
}

export class TreeItem {
  constructor(
    readonly label: string,
    readonly collapsibleState = 0,
  ) {}
}

export class Uri {
  private constructor(
    readonly scheme: string,
    readonly authority: string,
    readonly path: string,
    readonly query: string,
  ) {}

  static file(path: string): Uri {
    return new Uri("file", "", path, "");
  }

  static from({ scheme, authority = "", path = "", query = "" }: { scheme: string; authority?: string; path?: string; query?: string }): Uri {
    return new Uri(scheme, authority, path, query);
  }

  static joinPath(base: Uri, ...segments: string[]): Uri {
    return new Uri(base.scheme, base.authority, [base.path, ...segments].join("/"), "");
  }

  get fsPath(): string {
    return this.path;
  }

  toString(): string {
    return this.scheme === "file" ? pathToFileURL(this.path).href : `${this.scheme}:${this.path}${this.query && `?${encodeURIComponent(this.query)}`}`;
  }
}

export class Position {
  constructor(
    readonly line: number,
    readonly character: number,
  ) {}
}

export class Range {
  constructor(
    readonly start: Position,
    readonly end: Position,
  ) {}
}

export class RelativePattern {
  constructor(
    readonly base: unknown,
    readonly pattern: string,
  ) {}
}

export enum TreeItemCollapsibleState {
  None,
  Collapsed,
  Expanded,
}

export enum StatusBarAlignment {
  Left = 1,
  Right = 2,
}

export enum ProgressLocation {
  SourceControl = 1,
  Window = 10,
  Notification = 15,
}

export enum QuickPickItemKind {
  Separator = -1,
  Default = 0,
}

export enum FileType {
  Unknown = 0,
  File = 1,
  Directory = 2,
  SymbolicLink = 64,
}

export enum FilePermission {
  Readonly = 1,
}

export class FileSystemError extends Error {
  constructor(
    readonly code: string,
    about: unknown,
  ) {
    super(String(about));
  }

  static FileNotFound(about: unknown): FileSystemError {
    return new FileSystemError("FileNotFound", about);
  }

  static FileNotADirectory(about: unknown): FileSystemError {
    return new FileSystemError("FileNotADirectory", about);
  }

  static NoPermissions(about: unknown): FileSystemError {
    return new FileSystemError("NoPermissions", about);
  }

  static Unavailable(about: unknown): FileSystemError {
    return new FileSystemError("Unavailable", about);
  }
}

export const ViewColumn = { Active: -1, Beside: -2 } as const;
