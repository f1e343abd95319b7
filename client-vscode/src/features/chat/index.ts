/** Tools for the models of chat in the editor; loaded when the first is used. */

import * as vscode from "vscode";
import type { Feature } from "../../core/core.js";
import type { Tool, ToolName, Tools } from "./tools.js";

const READING: readonly ToolName[] = ["search", "read", "checkpoints", "compare"];
/** These ask a person first. */
const CHANGING: readonly ToolName[] = ["create_checkpoint", "go_back", "write_note"];

export const chat: Feature = (core) => {
  let tools: Promise<Tools> | undefined;
  const loaded = async (name: ToolName): Promise<Tool> => {
    tools ??= import("./tools.js").then(({ toolsOf }) => toolsOf(core));
    return (await tools)[name];
  };
  const reading = (name: ToolName): Tool => ({ invoke: async (options, token) => (await loaded(name)).invoke(options, token) });
  const changing = (name: ToolName): Tool => ({
    ...reading(name),
    prepareInvocation: async (options, token) => (await loaded(name)).prepareInvocation?.(options, token),
  });
  return vscode.Disposable.from(
    ...READING.map((name) => vscode.lm.registerTool(`timeleap_${name}`, reading(name))),
    ...CHANGING.map((name) => vscode.lm.registerTool(`timeleap_${name}`, changing(name))),
  );
};
