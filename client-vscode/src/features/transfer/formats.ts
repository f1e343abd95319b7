/** What a session can be written as. */

import * as vscode from "vscode";

export type Format = "markdown" | "html" | "native";

export const FORMATS: Readonly<Record<Format, { readonly extension: string; readonly name: string }>> = {
  html: { extension: "html", name: "HTML" },
  markdown: { extension: "md", name: "Markdown" },
  native: { extension: "zip", name: "ZIP" },
};

export async function chooseFormat(title: string): Promise<Format | undefined> {
  const items: (vscode.QuickPickItem & { readonly format: Format })[] = [
    { format: "html", label: "HTML" },
    { format: "markdown", label: "Markdown" },
    { format: "native", label: "ZIP", detail: vscode.l10n.t("Everything; “Import Session…” makes the same session of it") },
  ];
  return (await vscode.window.showQuickPick(items, { title }))?.format;
}
