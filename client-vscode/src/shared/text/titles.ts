/** Titles from the manifest, in the editor's language: a button is called as its command is. */

import * as vscode from "vscode";

const ID = "timeleap.timeleap";

/** In another language than English the editor keeps what it was translated from, too. */
type Text = string | { readonly value: string; readonly original: string };

interface Manifest {
  readonly contributes: {
    readonly commands: readonly { readonly command: string; readonly title: Text }[];
    readonly languageModelTools: readonly { readonly name: string; readonly displayName: Text }[];
  };
}

function inLanguage(text: Text): string {
  return typeof text === "string" ? text : text.value;
}

function contributes(): Partial<Manifest["contributes"]> {
  return (vscode.extensions.getExtension(ID)?.packageJSON as Manifest | undefined)?.contributes ?? {};
}

/** The title of the command `timeleap.<name>`; its name where the editor does not know the extension. */
export function titleOf(name: string): string {
  return inLanguage(contributes().commands?.find(({ command }) => command === `timeleap.${name}`)?.title ?? name);
}

/** The title of the command `timeleap.<name>` without the dots that stand for a question, where there is none to come. */
export function verbOf(name: string): string {
  return titleOf(name).replace(/…$/u, "");
}

/** The title of the tool of language models `timeleap_<name>`. */
export function toolName(name: string): string {
  return inLanguage(contributes().languageModelTools?.find((tool) => tool.name === `timeleap_${name}`)?.displayName ?? name);
}
