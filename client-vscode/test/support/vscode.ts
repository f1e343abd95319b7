/** The parts of the `vscode` module that the extension uses, in memory; what a person would do is set by the test. */

import { readFileSync } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { ROOT } from "./strings.js";
import { CancellationTokenSource, Disposable, EventEmitter, TabInputText, Uri, type ThemeColor } from "./vscodeTypes.js";

export * from "./vscodeTypes.js";

/** What was said to the user: kind, message, options and buttons. */
export interface Said {
  readonly kind: "information" | "warning" | "error";
  readonly message: string;
  readonly detail: string | undefined;
  readonly modal: boolean;
  readonly buttons: readonly string[];
}

/** The person in front of the editor, and what the editor was told. `reset` before each test. */
export const user = {
  said: [] as Said[],
  /** Chooses a button. */
  answer: (() => undefined) as (said: Said) => string | undefined,
  /** Types into an input box. */
  input: (() => undefined) as (options: { readonly value?: string; readonly title?: string }) => string | undefined,
  /** Chooses from a list. */
  pick: (items: readonly unknown[]): unknown => items[0],
  /** Cancels whatever shows progress, at once. */
  cancels: false,
  /** Titles of what has shown progress. */
  progress: [] as string[],
  /** Chooses a folder or a file. */
  path: undefined as string | undefined,
  settings: new Map<string, unknown>(),
  context: new Map<string, unknown>(),
  executed: [] as { readonly command: string; readonly args: readonly unknown[] }[],
  opened: [] as unknown[],
  /** Documents that the editor was told to ask for again. */
  changedDocuments: [] as string[],
  /** How each of them was opened. */
  openedAs: [] as unknown[],
  picks: [] as QuickPick[],
  /** Rows that were shown and selected. */
  revealed: [] as unknown[],
  /** Files that were given to other programs. */
  external: [] as string[],
  clipboard: "",
  statusBar: [] as StatusBarItem[],
  /** Pages that were opened. */
  panels: [] as WebviewPanel[],
  terminals: [] as unknown[],
  /** Of panels, by their type. */
  serializers: new Map<string, unknown>(),
  trees: new Map<string, { options: { treeDataProvider: unknown }; message?: string; description?: string; selection: unknown[] }>(),

  reset(): void {
    this.said = [];
    this.answer = () => undefined;
    this.input = () => undefined;
    this.pick = (items) => items[0];
    this.cancels = false;
    this.progress = [];
    this.path = undefined;
    this.settings.clear();
    this.context.clear();
    this.executed = [];
    this.opened = [];
    this.changedDocuments = [];
    workspace.textDocuments = [];
    this.openedAs = [];
    this.picks = [];
    this.revealed = [];
    this.external = [];
    window.activeTextEditor = undefined;
    window.tabGroups.all = [];
    this.statusBar = [];
    this.panels = [];
    this.terminals = [];
    this.trees.clear();
    registered.clear();
    workspace.isTrusted = true;
    workspace.workspaceFolders = undefined;
    lm.models = [];
    lm.tools.clear();
    lm.mcpProvider = undefined;
    extensions.known.clear();
  },
};

interface Item {
  readonly label: string;
  readonly [member: string]: unknown;
}

/** A list that changes while a person types. */
export class QuickPick {
  title = "";
  placeholder = "";
  value = "";
  busy = false;
  items: Item[] = [];
  activeItems: Item[] = [];
  selectedItems: Item[] = [];
  buttons: { readonly tooltip: string }[] = [];
  shown = false;
  private readonly typed = new EventEmitter<string>();
  private readonly accepted = new EventEmitter<undefined>();
  private readonly pressed = new EventEmitter<unknown>();
  private readonly hidden = new EventEmitter<undefined>();
  readonly onDidChangeValue = this.typed.event;
  readonly onDidAccept = this.accepted.event;
  readonly onDidTriggerButton = this.pressed.event;
  private readonly itemPressed = new EventEmitter<unknown>();
  readonly onDidTriggerItemButton = this.itemPressed.event;
  readonly onDidHide = this.hidden.event;

  show(): void {
    this.shown = true;
  }

  hide(): void {
    this.shown = false;
    this.hidden.fire(undefined);
  }

  dispose(): void {
    this.shown = false;
  }

  type(text: string): void {
    this.value = text;
    this.typed.fire(text);
  }

  press(tooltip: string): void {
    this.pressed.fire(this.buttons.find((button) => button.tooltip === tooltip));
  }

  /** Presses the first button of an item. */
  pressOn(label: string): void {
    const item = this.items.find((one) => one.label.includes(label));
    this.itemPressed.fire({ item, button: (item?.["buttons"] as unknown[] | undefined)?.[0] });
  }

  choose(label: string): void {
    this.selectedItems = this.items.filter((item) => item.label.includes(label)).slice(0, 1);
    this.accepted.fire(undefined);
  }
}

/** An editor with a page in it; the test is the page. */
export class WebviewPanel {
  private readonly received = new EventEmitter<unknown>();
  private readonly disposed = new EventEmitter<undefined>();
  readonly onDidDispose = this.disposed.event;
  /** What the page was told. */
  readonly told: { readonly kind: string; readonly [member: string]: unknown }[] = [];
  private readonly viewState = new EventEmitter<undefined>();
  readonly onDidChangeViewState = this.viewState.event;
  visible = true;
  active = true;
  readonly webview = {
    html: "",
    options: undefined as unknown,
    onDidReceiveMessage: this.received.event,
    postMessage: (message: { kind: string }) => Promise.resolve(this.told.push(message) > 0),
  };

  constructor(
    readonly viewType: string,
    public title: string,
    readonly options: unknown,
  ) {}

  reveal(): void {
    // It is in front.
  }

  /** Another tab comes in front of it, or it comes back. */
  turn(visible: boolean): void {
    this.visible = visible;
    this.viewState.fire(undefined);
  }

  /** What the page says. */
  say(message: unknown): void {
    this.received.fire(message);
  }

  dispose(): void {
    this.disposed.fire(undefined);
  }
}

export interface StatusBarItem {
  id: string;
  text: string;
  name?: string;
  tooltip?: unknown;
  command?: unknown;
  backgroundColor?: ThemeColor | undefined;
  accessibilityInformation?: { label: string } | undefined;
  visible: boolean;
  show(): void;
  hide(): void;
  dispose(): void;
}

/** A tab with a text document in it. */
export interface Tab {
  readonly input: TabInputText;
  readonly label: string;
  isActive: boolean;
  isPreview: boolean;
  group: { readonly viewColumn: number; readonly activeTab: Tab | undefined };
}

function say(kind: Said["kind"]) {
  return (message: string, ...rest: unknown[]): Promise<string | undefined> => {
    const options = typeof rest[0] === "object" ? (rest.shift() as { modal?: boolean; detail?: string }) : {};
    const said: Said = { kind, message, detail: options.detail, modal: options.modal ?? false, buttons: rest as string[] };
    user.said.push(said);
    return Promise.resolve(user.answer(said));
  };
}

const registered = new Map<string, (...args: unknown[]) => unknown>();
const documentProviders = new Map<string, unknown>();

interface FileSystem {
  stat(uri: Uri): Promise<{ size: number }>;
  readFile(uri: Uri): Promise<Uint8Array>;
}

const fileSystems = new Map<string, FileSystem>();

function fileSystemOf({ scheme }: Uri): FileSystem {
  const found = fileSystems.get(scheme);
  if (!found) {
    throw new Error(`no file system has the scheme ${scheme}`);
  }
  return found;
}

export const commands = {
  registerCommand(command: string, handler: (...args: unknown[]) => unknown): Disposable {
    if (registered.has(command)) {
      throw new Error(`command '${command}' already exists`);
    }
    registered.set(command, handler);
    return new Disposable(() => registered.delete(command));
  },
  executeCommand(command: string, ...args: unknown[]): Promise<unknown> {
    user.executed.push({ command, args });
    if (command === "setContext") {
      user.context.set(args[0] as string, args[1]);
    }
    return Promise.resolve(registered.get(command)?.(...args));
  },
  getCommands: () => Promise.resolve([...registered.keys()]),
};

export const window = {
  activeTextEditor: undefined as { document: { uri: Uri; getText(selection?: unknown): string }; selection: unknown } | undefined,
  visibleTextEditors: [] as { document: { uri: Uri }; selection: unknown }[],
  tabGroups: {
    all: [] as { tabs: Tab[]; viewColumn: number; activeTab: Tab | undefined }[],
    get activeTabGroup() {
      return window.tabGroups.all[0] ?? { tabs: [], viewColumn: 1, activeTab: undefined };
    },
    close(tab: Tab): Promise<boolean> {
      for (const group of window.tabGroups.all) {
        group.tabs = group.tabs.filter((one) => one !== tab);
      }
      return Promise.resolve(true);
    },
  },
  createQuickPick(): QuickPick {
    const pick = new QuickPick();
    user.picks.push(pick);
    return pick;
  },
  showWorkspaceFolderPick: () => Promise.resolve(user.pick(workspace.workspaceFolders ?? [])),
  showInformationMessage: say("information"),
  showWarningMessage: say("warning"),
  showErrorMessage: say("error"),
  showInputBox: (options: { value?: string; title?: string } = {}) => Promise.resolve(user.input(options)),
  showQuickPick: async (items: readonly unknown[] | Promise<readonly unknown[]>) => user.pick(await items),
  showOpenDialog: () => Promise.resolve(user.path === undefined ? undefined : [Uri.file(user.path)]),
  showSaveDialog: () => Promise.resolve(user.path === undefined ? undefined : Uri.file(user.path)),
  showTextDocument: (document: unknown, options?: unknown) => {
    const { uri } = document as { uri?: Uri };
    const group = window.tabGroups.all.at(0) ?? { tabs: [], viewColumn: 1, activeTab: undefined };
    window.tabGroups.all = [group];
    if (uri) {
      group.tabs.forEach((tab) => (tab.isActive = false));
      const tab: Tab = { input: new TabInputText(uri), label: uri.path.split("/").at(-1) ?? "", isActive: true, isPreview: false, group };
      group.tabs.push(tab);
      group.activeTab = tab;
    }
    user.opened.push(document);
    user.openedAs.push(options);
    return Promise.resolve({ document });
  },
  createWebviewPanel(viewType: string, title: string, _column: unknown, options: unknown): WebviewPanel {
    const panel = new WebviewPanel(viewType, title, options);
    user.panels.push(panel);
    return panel;
  },
  registerWebviewPanelSerializer(viewType: string, serializer: unknown): Disposable {
    user.serializers.set(viewType, serializer);
    return new Disposable(() => user.serializers.delete(viewType));
  },
  registerFileDecorationProvider: () => new Disposable(() => undefined),
  setStatusBarMessage: () => new Disposable(() => undefined),
  withProgress(options: { title: string }, task: (progress: { report(): void }, token: CancellationTokenSource["token"]) => Promise<unknown>): Promise<unknown> {
    const source = new CancellationTokenSource();
    user.progress.push(options.title);
    const done = task({ report: () => undefined }, source.token);
    if (user.cancels) {
      source.cancel();
    }
    return done;
  },
  createTerminal(options: unknown): { show(): void } {
    user.terminals.push(options);
    return { show: () => undefined };
  },
  createOutputChannel: (name: string) => log(name),
  createStatusBarItem(id: string): StatusBarItem {
    const item: StatusBarItem = {
      id,
      text: "",
      visible: false,
      show: () => void (item.visible = true),
      hide: () => void (item.visible = false),
      dispose: () => void (item.visible = false),
    };
    user.statusBar.push(item);
    return item;
  },
  createTreeView(id: string, options: { treeDataProvider: unknown }) {
    const expanded = new EventEmitter<{ element: unknown }>();
    const collapsed = new EventEmitter<{ element: unknown }>();
    const view = {
      options,
      selection: [],
      visible: true,
      expanded,
      collapsed,
      onDidExpandElement: expanded.event,
      onDidCollapseElement: collapsed.event,
      onDidChangeVisibility: () => new Disposable(() => undefined),
      reveal: (node: unknown) => Promise.resolve(void user.revealed.push(node)),
      dispose: () => undefined,
    };
    user.trees.set(id, view);
    return view;
  },
  onDidChangeWindowState: () => new Disposable(() => undefined),
};

/** A log channel that keeps what it is told. */
export function log(name = "test") {
  const lines: string[] = [];
  const write = (text: string): void => void lines.push(text);
  return { name, lines, trace: write, debug: write, info: write, warn: write, error: write, append: write, appendLine: write, show: () => undefined, dispose: () => undefined };
}

const granted = new EventEmitter<void>();
const closedDocuments = new EventEmitter<{ uri: Uri }>();
const folders = new EventEmitter<undefined>();
const configured = new EventEmitter<{ affectsConfiguration(section: string): boolean }>();

export const workspace = {
  isTrusted: true,
  workspaceFolders: undefined as { uri: Uri; name: string; index: number }[] | undefined,
  textDocuments: [] as { uri: Uri }[],
  getConfiguration: (section: string) => ({
    get: (name: string, fallback?: unknown) => user.settings.get(`${section}.${name}`) ?? fallback,
  }),
  onDidCloseTextDocument: closedDocuments.event,
  closeTextDocument(uri: Uri): void {
    workspace.textDocuments = workspace.textDocuments.filter((document) => document.uri.toString() !== uri.toString());
    closedDocuments.fire({ uri });
  },
  onDidChangeConfiguration: configured.event,
  onDidGrantWorkspaceTrust: granted.event,
  onDidChangeWorkspaceFolders: folders.event,
  registerTextDocumentContentProvider(scheme: string, provider: unknown): Disposable {
    documentProviders.set(scheme, provider);
    (provider as { onDidChange?: (heard: (uri: Uri) => void) => Disposable }).onDidChange?.((uri) => user.changedDocuments.push(uri.toString()));
    return new Disposable(() => documentProviders.delete(scheme));
  },
  registerFileSystemProvider(scheme: string, provider: unknown): Disposable {
    fileSystems.set(scheme, provider as FileSystem);
    return new Disposable(() => fileSystems.delete(scheme));
  },
  fs: {
    stat: async (uri: Uri): Promise<{ size: number }> => (uri.scheme === "file" ? stat(uri.fsPath) : fileSystemOf(uri).stat(uri)),
    readFile: async (uri: Uri): Promise<Uint8Array> => (uri.scheme === "file" ? readFile(uri.fsPath) : fileSystemOf(uri).readFile(uri)),
  },
  async openTextDocument(uri: Uri): Promise<{ uri: Uri; getText(): string }> {
    const provider = documentProviders.get(uri.scheme) as { provideTextDocumentContent(uri: Uri, token: unknown): Promise<string> };
    const text = await provider.provideTextDocumentContent(uri, new CancellationTokenSource().token);
    return { uri, getText: () => text };
  },
  createFileSystemWatcher: () => ({ onDidCreate: () => new Disposable(() => undefined), onDidDelete: () => new Disposable(() => undefined), dispose: () => undefined }),
  grantTrust(): void {
    workspace.isTrusted = true;
    granted.fire();
  },
  changeFolders(...paths: string[]): void {
    workspace.workspaceFolders = paths.map((path, index) => ({ uri: Uri.file(path), name: path.split("/").at(-1) ?? path, index }));
    folders.fire(undefined);
  },
  changeSetting(name: string, value: unknown): void {
    user.settings.set(name, value);
    configured.fire({ affectsConfiguration: (section) => name === section || name.startsWith(`${section}.`) });
  },
};

export const env = {
  language: "en",
  openExternal: (uri: Uri) => Promise.resolve(user.external.push(uri.fsPath) > 0),
  clipboard: {
    writeText: (text: string) => {
      user.clipboard = text;
      return Promise.resolve();
    },
  },
};

/** This extension as the editor knows it: its manifest in English. */
const OWN = { packageJSON: manifest() };

function manifest(): object {
  const read = (name: string): string => readFileSync(join(ROOT, name), "utf8");
  const english = JSON.parse(read("package.nls.json")) as Record<string, string>;
  return JSON.parse(read("package.json"), (_, value: unknown) => (typeof value === "string" && /^%[\w.]+%$/u.test(value) ? english[value.slice(1, -1)] : value)) as object;
}

export const extensions = {
  known: new Map<string, { isActive: boolean; exports: unknown; activate(): Promise<unknown> }>(),
  getExtension: (id: string) => extensions.known.get(id) ?? (id === "timeleap.timeleap" ? OWN : undefined),
};

export const languages = {
  lenses: undefined as { provideCodeLenses(document: unknown): { command: { command: string; title: string; arguments: unknown[] } }[] } | undefined,
  registerCodeLensProvider(_: unknown, provider: unknown): Disposable {
    languages.lenses = provider as typeof languages.lenses;
    return new Disposable(() => (languages.lenses = undefined));
  },
  setTextDocumentLanguage: (document: unknown) => Promise.resolve(document) };

export const lm = {
  models: [] as unknown[],
  selectChatModels: () => Promise.resolve(lm.models),
  tools: new Map<string, LanguageModelTool>(),
  registerTool(name: string, tool: LanguageModelTool): Disposable {
    lm.tools.set(name, tool);
    return new Disposable(() => lm.tools.delete(name));
  },
  mcpProvider: undefined as McpServerProvider | undefined,
  registerMcpServerDefinitionProvider(_id: string, provider: McpServerProvider): Disposable {
    lm.mcpProvider = provider;
    return new Disposable(() => void (lm.mcpProvider = undefined));
  },
};

interface McpServerProvider {
  provideMcpServerDefinitions(): Promise<McpStdioServerDefinition[]>;
  onDidChangeMcpServerDefinitions(listener: () => void): Disposable;
}

export interface LanguageModelTool {
  prepareInvocation?(options: { input: unknown }, token: unknown): Promise<{ confirmationMessages?: { title: string; message: string } }>;
  invoke(options: { input: unknown }, token: unknown): Promise<LanguageModelToolResult>;
}

export class LanguageModelTextPart {
  constructor(readonly value: string) {}
}

export class LanguageModelToolResult {
  constructor(readonly content: LanguageModelTextPart[]) {}
}

export class McpStdioServerDefinition {
  constructor(
    readonly label: string,
    readonly command: string,
    readonly args: string[],
    readonly env: Record<string, string>,
    readonly version: string,
  ) {}
}

export const LanguageModelChatMessage = {
  User: (content: string) => ({ role: "user", content }),
  Assistant: (content: string) => ({ role: "assistant", content }),
};

export const l10n = {
  t: (message: string, ...args: (string | number | boolean)[]): string =>
    message.replaceAll(/\{(\d+)\}/g, (hole: string, number: string) => String(args[Number(number)] ?? hole)),
};
