/** The server's words behind ours. */

import * as vscode from "vscode";

/**
 * A sentence of ours, and what exactly is wrong as the server says it, which is English. In another language the sentence stands
 * alone, and the log of the extension has the rest.
 *
 * @param rest What is said after that.
 */
export function withDetail(sentence: string, message: string, rest = ""): string {
  const english = /^en\b/u.test(vscode.env.language) && message !== "";
  const said = english ? `${sentence.replace(/\.$/u, "")}: ${/[.!?]$/u.test(message) ? message : `${message}.`}` : sentence;
  return rest === "" ? said : vscode.l10n.t("{0} {1}", said, rest);
}
