/** The whole extension on a real server, without an editor. */

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type * as vscode from "vscode";
import { activate, deactivate } from "../../src/extension.js";
import type { TimeleapApi } from "../../src/features/api/apiTypes.js";
import type { TreeNode } from "../../src/core/tree/node.js";
import type { NodeTree } from "../../src/core/tree/tree.js";
import { ROOT } from "./strings.js";
import { user, Uri } from "./vscode.js";

/** The command that starts a server, as the Makefile gives it. */
export const COMMAND = (process.env["TIMELEAP_COMMAND"] ?? "timeleap serve").split(" ");

export interface Running {
  readonly home: string;
  /** Where the extension is installed. */
  readonly extension: string;
  readonly api: TimeleapApi;
  tree(id: string): NodeTree;
  /** The rows of a view, or of a row of it. */
  rows(id: string, parent?: TreeNode): Promise<Row[]>;
  /** The storage the extension remembers things in. */
  readonly memory: Map<string, unknown>;
  /** Ends the window and leaves the store. */
  close(): Promise<void>;
  /** Ends the window and removes the store. */
  stop(): Promise<void>;
}

export interface Row {
  readonly node: TreeNode;
  readonly item: vscode.TreeItem;
  readonly label: string;
  readonly description: string;
}

const MANIFEST = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as object;

/** Activates the extension with a store of its own. */
export function start(memory = new Map<string, unknown>(), home = mkdtempSync(join(tmpdir(), "timeleap-vscode-"))): Running {
  user.settings.set("timeleap.server.command", COMMAND);
  user.settings.set("timeleap.home", home);
  // Beside the store, which may be on a disk that is read-only.
  const extension = `${home}-extension`;
  const webview = join(extension, "dist", "webview");
  mkdirSync(webview, { recursive: true });
  writeFileSync(join(webview, "page.js"), "// </script> the page\n");
  writeFileSync(join(webview, "page.css"), "body {}\n");
  const subscriptions: { dispose(): void }[] = [];
  const memento = {
    get: (key: string) => memory.get(key),
    update: (key: string, value: unknown) => {
      memory.set(key, value);
      return Promise.resolve();
    },
    keys: () => [...memory.keys()],
  };
  const context = {
    subscriptions,
    workspaceState: memento,
    globalState: memento,
    extension: { packageJSON: { ...MANIFEST, version: "0.0.0" } },
    extensionUri: Uri.file(extension),
    globalStorageUri: Uri.file(join(home, "storage")),
  };
  const api = activate(context as unknown as vscode.ExtensionContext);
  const close = async (): Promise<void> => {
    await deactivate();
    for (const one of subscriptions.splice(0).reverse()) {
      one.dispose();
    }
    rmSync(extension, { recursive: true, force: true });
  };
  const tree = (id: string): NodeTree => user.trees.get(`timeleap.${id}`)?.options.treeDataProvider as NodeTree;
  return {
    home,
    extension,
    api,
    memory,
    tree,
    async rows(id, parent) {
      const nodes = await tree(id).getChildren(parent);
      return nodes.map((node) => {
        const item = tree(id).getTreeItem(node);
        return { node, item, label: item.label as string, description: typeof item.description === "string" ? item.description : "" };
      });
    },
    close,
    async stop() {
      await close();
      rmSync(home, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}
