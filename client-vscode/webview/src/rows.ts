/** Rows of the conversation: a message each, under the checkpoints before it, in a turn whose speaker is named once. */

import { actionsAt, type Action, type Facts, type FileSpan, type FromPage, type ShownCall, type ShownCheckpoint, type ShownMessage } from "../../src/features/page/wire.js";
import { button, icon, ICONS, make } from "./dom.js";
import { changedCount, type ChangedFiles } from "./files.js";
import { showMenu, type Entry } from "./menu.js";
import { body, roleName, systemPrompt, type MessageContext } from "./message.js";
import type { Messages } from "./store.js";
import { counted, exact, say, short, timeOf } from "./words.js";

/** Messages through which the call that a result belongs to is looked for. */
const FAR = 200;

export interface RowsOf {
  readonly messages: Messages;
  readonly files: ChangedFiles;
  readonly context: MessageContext;
  readonly facts: () => Facts | undefined;
  readonly tell: (message: FromPage) => void;
  readonly act: (action: Action, index: number) => void;
  readonly focused: (index: number) => void;
}

export class Rows {
  private checkpoints: readonly ShownCheckpoint[] = [];
  private marks = new Map<number, ShownCheckpoint[]>();
  /** All rows are drawn again when it changes. */
  private drawn = 0;

  constructor(private readonly of: RowsOf) {}

  setCheckpoints(checkpoints: readonly ShownCheckpoint[]): void {
    this.checkpoints = checkpoints;
    this.marks = Map.groupBy(checkpoints, ({ at }) => at);
    this.drawn += 1;
  }

  drawAgain(): void {
    this.drawn += 1;
  }

  /** What a row is drawn of. */
  version(index: number): string {
    const message = this.of.messages.peek(index);
    if (!message) {
      return message === null ? `${this.drawn}/null` : `${this.drawn}/waits`;
    }
    const answers = message.calls.map((call) => {
      const answer = this.answerOf(message, call);
      return answer === undefined ? "?" : answer === null ? "-" : answer.index;
    });
    const files = message.role === "user" ? this.of.files.version : "";
    return `${this.drawn}/${this.isMerged(message) ? "merged" : ""}/${this.callOf(message)?.from ?? ""}/${this.goesOn(message) ? "on" : ""}/${files}/${answers.join()}`;
  }

  /** Undefined: it is shown in another one. */
  row(index: number): HTMLElement | undefined {
    const total = this.total;
    const message = this.of.messages.get(index, total);
    if (message && this.isMerged(message)) {
      return undefined;
    }
    const goesOn = message ? this.goesOn(message) : false;
    const element = make("article", { class: `row ${message?.role ?? ""}${goesOn ? " goes-on" : ""}`, tabindex: -1, "aria-posinset": index + 1, "aria-setsize": total, "data-index": index });
    const prompt = this.of.facts()?.systemPrompt;
    if (index === 0 && prompt !== undefined && prompt !== "") {
      element.append(systemPrompt(prompt, this.of.context));
    }
    element.append(...(this.marks.get(index) ?? []).map((checkpoint) => this.marker(checkpoint)));
    if (message === undefined) {
      element.setAttribute("aria-busy", "true");
      element.setAttribute("aria-label", say("loading"));
      element.append(make("div", { class: "waits" }, say("loading")));
      return element;
    }
    const role = message ? roleName(message.role) : "";
    element.setAttribute("aria-label", `#${exact(index)} ${role}`);
    element.append(make("div", { class: "row-head" },
      !goesOn && make("span", { class: "role" }, role, ...(message?.name === undefined || message.role === "tool" ? [] : [make("small", {}, message.name)])),
      make("span", { class: "number" }, exact(index)),
      message !== null && this.actions(message)));
    element.append(message === null ? make("p", { class: "quiet" }, say("unreadable")) : body(message, this.of.context));
    const files = message?.role === "user" ? this.filesOfTurn(index) : undefined;
    if (files) {
      element.append(files);
    }
    element.addEventListener("focusin", () => this.of.focused(index));
    return element;
  }

  /** Whether a message is shown with its call, and has no row of its own; one at a checkpoint has, for the checkpoint. */
  isMerged(message: ShownMessage): boolean {
    return !this.marks.has(message.index) && this.callOf(message) !== undefined;
  }

  /** Where a tool's message is shown: with its call, where that is known. */
  callOf(message: ShownMessage): { readonly call: ShownCall; readonly from: number } | undefined {
    if (message.role !== "tool" || message.answers === undefined) {
      return undefined;
    }
    for (let index = message.index - 1; index >= 0 && index > message.index - FAR; index -= 1) {
      const before = this.of.messages.peek(index);
      if (before === undefined) {
        return undefined;
      }
      const call = before?.calls.find(({ id }) => id === message.answers);
      if (call) {
        return { call, from: index };
      }
      if (before && before.role !== "tool") {
        return undefined;
      }
    }
    return undefined;
  }

  answerOf(message: ShownMessage, call: ShownCall): ShownMessage | null | undefined {
    const { total } = this;
    for (let index = message.index + 1; index < total && index < message.index + FAR; index += 1) {
      const after = this.of.messages.get(index, total);
      if (after === undefined) {
        return undefined;
      }
      if (after?.role === "tool" && after.answers === call.id && call.id !== "") {
        return after;
      }
      if (after && after.role !== "tool") {
        return null;
      }
    }
    return null;
  }

  private get total(): number {
    return this.of.facts()?.messages ?? 0;
  }

  private get live(): boolean {
    const facts = this.of.facts();
    return facts?.timeline === undefined && facts?.writable === true;
  }

  /** Whether the turn of the one who speaks has begun before: who that is, is said once. */
  private goesOn({ index, role }: ShownMessage): boolean {
    const speaks = role === "assistant" || role === "tool";
    const before = speaks && index > 0 ? this.of.messages.peek(index - 1) : undefined;
    return before?.role === "tool" || before?.role === "assistant";
  }

  /** What changed from before a prompt to before the next one. */
  private filesOfTurn(index: number): HTMLElement | undefined {
    const first = lastAt(this.checkpoints, index);
    const from = this.checkpoints[first];
    if (!from || (from.at !== index && from.turn !== true)) {
      return undefined;
    }
    const next = this.checkpoints.findIndex((one, at) => at > first && one.turn === true);
    const to = this.checkpoints[next];
    const known = (next === -1 ? this.checkpoints.slice(first) : this.checkpoints.slice(first, next)).flatMap(({ files = [] }) => files);
    if (from.files !== undefined || known.length > 0) {
      return this.of.files.element(spanOf(from, to), [...new Map(known.map((file) => [file.path, file])).values()]);
    }
    const saved = from.saved === true && (to ? to.saved === true : this.of.facts()?.timeline === undefined);
    return saved && this.of.facts()?.exported !== true ? this.of.files.element(spanOf(from, to)) : undefined;
  }

  private marker(checkpoint: ShownCheckpoint): HTMLElement {
    const { uid, id, name, createdAt, tokens, errors } = checkpoint;
    const label = say("checkpoint", exact(id));
    const more = button(`${label}: ${say("actions")}`, () => {
      showMenu(more, label, [
        { label: say("revert"), run: () => this.of.tell({ kind: "checkpoint", action: "revert", uid }) },
        { label: say("fork"), run: () => this.of.tell({ kind: "checkpoint", action: "fork", uid }) },
      ]);
    }, { class: "tool", "aria-haspopup": "menu", "aria-expanded": "false" }, icon(ICONS.more));
    const facts = [changedCount(checkpoint.changed), timeOf(createdAt), tokens > 0 ? counted("tokens", tokens, short(tokens)) : ""];
    return make("div", { class: errors === undefined ? "marker" : "marker failed", "data-checkpoint": id },
      make("span", { class: "marker-id" }, `#${exact(id)}`),
      make("span", { class: "marker-name", dir: "auto" }, name),
      errors !== undefined && make("span", { class: "badge" }, say("failures", errors)),
      make("span", { class: "marker-facts" }, facts.filter(Boolean).join(" · ")),
      this.live && more);
  }

  /** Going back stands in sight at each prompt; the rest is there when somebody looks at the message. */
  private actions(message: ShownMessage): HTMLElement {
    const { index, role } = message;
    const { act } = this.of;
    const tool = (text: "again" | "markdown", path: string): HTMLButtonElement => button(say(text), () => act(text, index), { class: "tool", tabindex: -1 }, icon(path));
    const back = role === "user"
      ? button(say("revert"), () => act("revert", index), { class: "restore", tabindex: -1 })
      : button(say("revert"), () => act("revert", index), { class: "tool", tabindex: -1 }, icon(ICONS.back));
    const more = button(say("actions"), () => showMenu(more, say("actions"), this.entries(message)), { class: "tool more", "aria-haspopup": "menu", "aria-expanded": "false" }, icon(ICONS.more));
    return make("span", { class: role === "user" && this.live ? "actions prompt" : "actions" }, this.live && back, this.live && role === "user" && tool("again", ICONS.edit), tool("markdown", ICONS.copy), more);
  }

  private entries({ index, role }: ShownMessage): Entry[] {
    return actionsAt(role, { live: this.live, forkable: this.live }).map((action) => ({ label: say(action), run: () => this.of.act(action, index) }));
  }
}

function spanOf(from: ShownCheckpoint, to: ShownCheckpoint | undefined): FileSpan {
  return { from: from.uid, ...(to ? { to: to.uid } : {}) };
}

/** The last checkpoint at or before a message, by bisection; -1: there is none. */
export function lastAt(checkpoints: readonly ShownCheckpoint[], index: number): number {
  let [low, high] = [0, checkpoints.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((checkpoints[middle]?.at ?? 0) <= index) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low - 1;
}
