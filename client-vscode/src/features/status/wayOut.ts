/** Where there is nothing to show: what can be done about it, as rows under the line that says what is wrong. */

import * as vscode from "vscode";
import type { SidecarState } from "../../core/server/sidecar.js";
import type { SessionProblem } from "../../core/sessions/sessions.js";
import { TreeNode, treeItem } from "../../core/tree/node.js";
import { logs, openAnother, openSettings, stepsAfter, type Step } from "../../shared/text/errorWords.js";
import { titleOf } from "../../shared/text/titles.js";

const ICONS: Readonly<Record<string, string>> = {
  "timeleap.refresh": "refresh",
  "timeleap.showLogs": "output",
  "timeleap.installServer": "cloud-download",
  "timeleap.openSession": "folder-opened",
  "timeleap.newSession": "add",
  "timeleap.undelete": "reply",
  "workbench.action.openSettings": "gear",
};

class StepNode extends TreeNode {
  constructor(private readonly step: Step) {
    super(undefined, `step/${step.command}`);
  }

  item(): vscode.TreeItem {
    const { title, command, arguments: given = [] } = this.step;
    return treeItem(this.id, { label: title, icon: ICONS[command] ?? "link-external", context: "step", command: { command, title, arguments: [...given] } });
  }
}

/** None where the server is not installed: there the welcome view is the way in. */
export function waysOut(server: SidecarState, problem: SessionProblem | undefined): TreeNode[] {
  if (server.kind === "failed") {
    const { kind } = server.failure;
    const steps = stepsAfter(kind).filter(({ command }) => command !== "timeleap.restartServer");
    return kind === "noServer" ? [] : [tryAgain(), ...steps].map((step) => new StepNode(step));
  }
  return problem ? stepsOf(problem).map((step) => new StepNode(step)) : [];
}

function stepsOf({ kind }: SessionProblem): Step[] {
  const open = openAnother();
  switch (kind) {
    case "gone":
      return [{ title: vscode.l10n.t("Take Out of the Trash"), command: "timeleap.undelete" }, open, { title: titleOf("newSession"), command: "timeleap.newSession" }];
    case "diskReadOnly":
    case "noPermission":
    case "databaseRefused":
      return [tryAgain(), open, openSettings(), logs()];
    default:
      return [tryAgain(), open, logs()];
  }
}

function tryAgain(): Step {
  return { title: vscode.l10n.t("Try Again"), command: "timeleap.refresh" };
}
