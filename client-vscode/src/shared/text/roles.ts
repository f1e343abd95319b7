/** Who speaks in a message. */

import * as vscode from "vscode";

export function roleName(role: string): string {
  switch (role) {
    case "user":
      return vscode.l10n.t("User");
    case "assistant":
      return vscode.l10n.t("Assistant");
    case "tool":
      return vscode.l10n.t("Tool");
    case "system":
      return vscode.l10n.t("System");
    default:
      return role;
  }
}
