/** Connecting an agent: its conversations are read and followed, and its hooks save the files at each prompt; and undoing that. */

import * as vscode from "vscode";
import type { BridgeSource, SessionInfo } from "timeleap-client";
import { withProgress } from "../../shared/progress.js";
import { requireTrust } from "../../core/commands/targets.js";
import type { Core } from "../../core/core.js";
import { titleOf } from "../../shared/text/titles.js";
import { workspaces } from "../../shared/workspaces.js";
import { ContextKeys } from "../../core/tree/context.js";
import { Disposables } from "../../shared/lifecycle.js";
import { sayInformation, sayWarning } from "../../shared/text/say.js";
import { changeHooks } from "./hooks.js";
import type { Installation } from "./install.js";
import { isHere, knownAgents, type Agent } from "./programs.js";
import { headed } from "../../shared/text/detail.js";
import { inShort } from "../../shared/text/paths.js";

/** Which agents are connected, on this machine. */
const CONNECTED = "timeleap.connected";
/** Milliseconds between two looks at how much has been read, and after which what has been read so far is shown. */
const LOOK = 250;
const PATIENCE = 10_000;

export class Connections extends Disposables {
  private readonly keys = new ContextKeys();

  constructor(
    private readonly core: Core,
    private readonly installation: Installation,
  ) {
    super();
    const { sidecar, sessions } = core;
    this.register(sidecar.onDidConnect(() => void this.follow()));
    this.register(sidecar.onNotification("bridge/didChange", () => sessions.listMayHaveChanged()));
    this.tell();
  }

  /** Connects an agent, after saying what that changes; one that is connected and chosen from the list is disconnected. */
  async connect(kind: unknown): Promise<void> {
    requireTrust();
    const { connected } = this;
    const found = knownAgents().filter((agent) => isHere(agent) || connected.includes(agent.kind));
    const named = found.find((one) => one.kind === kind && !connected.includes(one.kind));
    const agent = named ?? (await choose(found, connected));
    if (agent && connected.includes(agent.kind)) {
      await this.disconnect(agent);
    } else if (agent) {
      await this.connectTo(agent);
    }
  }

  private async connectTo(agent: Agent): Promise<void> {
    const { core, installation } = this;
    const python = await installation.needed();
    const hooks = python === undefined ? await changeHooks(core, "install", agent, false).catch(() => undefined) : undefined;
    if (!(await this.agreed(agent, python, hooks))) {
      return;
    }
    if (python !== undefined) {
      await installation.carryOut(python);
    }
    await this.remember([...this.connected, agent.kind]);
    await core.sidecar.request("bridge/watch", { kind: agent.kind });
    const problem = await changeHooks(core, "install", agent, true).then(
      () => undefined,
      (error: unknown) => String(error instanceof Error ? error.message : error),
    );
    const newest = await this.read(agent);
    await this.shown(agent, newest);
    if (problem !== undefined) {
      void sayWarning(vscode.l10n.t("{0} is followed, but its hooks could not be set, so files are not saved at its prompts: {1}", agent.name, problem));
    }
  }

  /** Takes an agent's hooks out, and follows it no more. What was read stays. */
  private async disconnect(agent: Agent): Promise<void> {
    const { path } = await changeHooks(this.core, "uninstall", agent, true);
    await this.core.sidecar.request("bridge/unwatch", { kind: agent.kind });
    await this.remember(this.connected.filter((kind) => kind !== agent.kind));
    const again = vscode.l10n.t("Connect");
    const said = vscode.l10n.t("Timeleap's hooks are taken out of {0}; all else in it stays. What was read of its conversations stays here until you delete it.", path);
    void sayInformation(said, again).then((chosen) => chosen === again && vscode.commands.executeCommand("timeleap.connect", agent.kind));
  }

  private get connected(): readonly string[] {
    return this.core.context.globalState.get<readonly string[]>(CONNECTED) ?? [];
  }

  private async remember(kinds: readonly string[]): Promise<void> {
    await this.core.context.globalState.update(CONNECTED, [...new Set(kinds)]);
    this.tell();
  }

  private tell(): void {
    const { connected } = this;
    const found = knownAgents().map((agent) => [`timeleap.found.${agent.kind}`, isHere(agent) && !connected.includes(agent.kind)] as const);
    this.keys.update(Object.fromEntries(found));
  }

  /** A server that was started anew follows nothing. */
  private async follow(): Promise<void> {
    for (const { kind } of knownAgents().filter((agent) => this.connected.includes(agent.kind))) {
      await this.core.sidecar.request("bridge/watch", { kind }).catch((error: unknown) => this.core.log.warn(`${kind} is not followed: ${String(error)}`));
    }
  }

  private async agreed(agent: Agent, python: string | undefined, hooks: Awaited<ReturnType<typeof changeHooks>> | undefined): Promise<boolean> {
    const connect = vscode.l10n.t("Connect");
    const look = vscode.l10n.t("Show the Change");
    const detail = [
      vscode.l10n.t("Its conversations on this machine are read and followed, as copies that change nothing of its own."),
      vscode.l10n.t("Hooks are added to {0}, so that each prompt has a checkpoint with the files of its folder. “Disconnect” takes them out again.", inShort(hooks?.path ?? agent.folder)),
      ...(python === undefined ? [] : [this.installation.inWords(python)]),
    ].join("\n\n");
    const buttons = [connect, ...(hooks?.changed ? [look] : [])];
    const chosen = await vscode.window.showInformationMessage(vscode.l10n.t("Connect {0}?", agent.name), { modal: true, detail }, ...buttons);
    if (chosen === look && hooks) {
      return (await vscode.window.showInformationMessage(headed(look, agent.name), { modal: true, detail: hooks.diff }, connect)) === connect;
    }
    return chosen === connect;
  }

  /** Waits until its conversations are read, not for ever, and gives the newest: of the window's folders if they have one. */
  private async read(agent: Agent): Promise<SessionInfo | undefined> {
    const { sessions } = this.core;
    await withProgress(headed(vscode.l10n.t("Connect"), agent.name), async ({ token }) => {
      for (const until = Date.now() + PATIENCE; Date.now() < until && !token.isCancellationRequested; ) {
        const left = await this.left(agent);
        if (left === 0) {
          return;
        }
        await new Promise((resolve) => setTimeout(resolve, LOOK));
      }
    });
    const source = { kind: agent.kind };
    const pages = await Promise.all([...workspaces().map(({ uri }) => ({ workspace: uri })), {}].map((where) => sessions.list({ source, limit: 1, ...where })));
    sessions.listMayHaveChanged();
    return pages.flatMap((page) => page.sessions)[0];
  }

  private async left({ kind }: Agent): Promise<number | undefined> {
    const { sources } = await this.core.sidecar.request("bridge/list", {});
    const watched = sources.filter((source: BridgeSource) => source.kind === kind && source.watched);
    return watched.length > 0 && watched.every(({ pending }) => pending === 0) ? 0 : undefined;
  }

  private async shown(agent: Agent, newest: SessionInfo | undefined): Promise<void> {
    if (!newest) {
      void sayInformation(vscode.l10n.t("{0} is connected. It has no conversations on this machine yet; the next one appears by itself.", agent.name));
      return;
    }
    await this.core.sessions.open({ sessionId: newest.sessionId, create: false });
    await vscode.commands.executeCommand("timeleap.openConversation");
  }
}

async function choose(agents: readonly Agent[], connected: readonly string[]): Promise<Agent | undefined> {
  if (agents.length === 0) {
    void sayInformation(vscode.l10n.t("No agent that Timeleap knows ({0}) has been used on this machine.", knownAgents().map(({ name }) => name).join(", ")));
    return undefined;
  }
  const items = agents.map((agent) => {
    const [icon, what] = connected.includes(agent.kind) ? ["debug-disconnect", vscode.l10n.t("Disconnect")] : ["plug", vscode.l10n.t("Connect")];
    return { label: `$(${icon}) ${agent.name}`, description: `${what} · ${inShort(agent.folder)}`, agent };
  });
  return (await vscode.window.showQuickPick(items, { title: titleOf("connect") }))?.agent;
}
