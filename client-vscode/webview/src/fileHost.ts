/** What answers the page where it is a file of its own: the session that stands in it. Nothing can be changed there. */

import { messageAsJson, messageAsMarkdown } from "../../src/features/page/copies.js";
import { MOST_TEXT, shownMessage, textAt } from "../../src/features/page/shown.js";
import type { Facts, FromPage, Hit, Point, ShownCheckpoint, ShownMessage, ShownTimeline, ToPage } from "../../src/features/page/wire.js";
import type { WordsOfFile } from "../../src/features/page/words.js";
import { callsOf, partsOf } from "../../src/shared/text/message.js";
import { common, fileOf, type Exhibit, type Log, type Mark } from "./exhibit.js";
import type { Host } from "./host.js";
import { roleName } from "./message.js";
import { say, timeOf } from "./words.js";

/** Messages of a comparison's side that are shown, matches that are looked for, characters of a preview and of a text that is read on. */
const SHOWN = 40;
const HITS = 500;
const PREVIEW = 72;
const PIECE = 512 * 1024;
/** Milliseconds of searching between two looks at what else there is to do. */
const SLICE = 12;

export class FileHost implements Host {
  private take: (message: ToPage) => void = () => undefined;
  private shown: Log;
  private epoch = 1;
  private searching = 0;

  constructor(
    private readonly exhibit: Exhibit,
    private readonly words: WordsOfFile,
  ) {
    this.shown = exhibit.log(undefined);
  }

  listen(take: (message: ToPage) => void): void {
    this.take = take;
    const [, id, index] = /^#([\w.-]+)(?:\/(\d+))?$/u.exec(location.hash) ?? [];
    this.show(id === undefined || id === "present" ? undefined : id, index === undefined ? undefined : Number(index));
    window.addEventListener("hashchange", () => {
      const [, to, at] = /^#([\w.-]+)(?:\/(\d+))?$/u.exec(location.hash) ?? [];
      this.show(to === undefined || to === "present" ? undefined : to, at === undefined ? undefined : Number(at));
    });
  }

  /** The place is in the page's address, so that it can be passed on. */
  keep(): void {
    return;
  }

  tell(message: FromPage): void {
    switch (message.kind) {
      case "read":
        this.read(message.epoch, message.from, message.to);
        break;
      case "log":
        this.epoch += 1;
        this.show(message.timeline, message.index);
        break;
      case "search":
        void this.search(message.search, message.query);
        break;
      case "compare":
        this.compare(message.from, message.to);
        break;
      case "act":
        this.act(message.action, message.index);
        break;
      case "text": {
        const found = this.exhibit.message(this.shown, message.place.index);
        const text = found && textAt(found, message.place);
        if (typeof text === "string") {
          this.take({ kind: "text", epoch: this.epoch, place: message.place, from: message.from, text: text.slice(message.from, message.from + PIECE), whole: text.length });
        }
        break;
      }
      case "top":
        this.address(message.index);
        break;
      default: // nobody is there who could do it
    }
  }

  private show(id: string | undefined, index: number | undefined): void {
    const log = (this.shown = this.exhibit.log(id));
    const { epoch } = this;
    const { facts: { session, losses, prompts } } = this.exhibit;
    const prompt = log.facts.systemPrompt === null ? undefined : prompts[log.facts.systemPrompt];
    const facts: Facts = {
      session: { sessionId: session.id },
      title: log.id === undefined ? (session.title ?? session.id) : this.nameOf(log),
      epoch,
      keep: 0,
      messages: log.messages,
      tokens: log.facts.tokens,
      checkpoints: log.marks.length,
      writable: false,
      canUndo: 0,
      canRedo: 0,
      exported: true,
      ...(log.id === undefined ? {} : { timeline: log.id }),
      ...(prompt === undefined ? {} : { systemPrompt: prompt.slice(0, MOST_TEXT) }),
    };
    this.take({ kind: "facts", facts });
    this.take({ kind: "checkpoints", epoch, checkpoints: log.marks.map((mark) => this.checkpoint(mark, log)), more: false });
    this.take({ kind: "usage", epoch, usage: log.usages });
    this.take({ kind: "timelines", timelines: this.exhibit.logs.slice(1).map((one) => this.timeline(one)) });
    this.take({ kind: "trouble", ...(losses.length === 0 ? {} : { text: losses.join("\n") }) });
    this.take({ kind: "go", index: index ?? log.messages });
  }

  private checkpoint({ id, label, happened, createdAt, messages, tokens, failed: errors, files, changed }: Mark, log: Log): ShownCheckpoint {
    const first = messages < log.messages ? this.exhibit.message(log, messages) : null;
    return {
      uid: `${log.id ?? ""}/${id}`,
      id,
      at: messages,
      tokens,
      name: label ?? happened ?? say("checkpoint", `#${id}`),
      ...(createdAt === undefined ? {} : { createdAt }),
      ...(errors ? { errors } : {}),
      ...(first?.role === "user" ? { turn: true } : {}),
      ...(changed ? { changed } : {}),
      ...(files ? { files: files.map(fileOf) } : {}),
    };
  }

  private timeline(log: Log): ShownTimeline {
    const { createdAt, reason } = log.facts;
    return { id: log.id ?? "", name: this.nameOf(log), reason: reason ?? "", messages: log.messages, common: common(log, this.exhibit.log(undefined)), ...(createdAt === null ? {} : { createdAt }) };
  }

  private nameOf({ facts: { reason, createdAt } }: Log): string {
    const known = this.words as unknown as Partial<Record<string, string>>;
    return [known[reason ?? "unknown"] ?? this.words.unknown, timeOf(createdAt ?? undefined)].filter(Boolean).join(", ");
  }

  private read(epoch: number, from: number, to: number): void {
    if (epoch === this.epoch) {
      this.take({ kind: "messages", epoch, from, to, messages: this.messages(this.shown, from, Math.min(to, this.shown.messages)) });
    }
  }

  private messages(log: Log, from: number, to: number): ShownMessage[] {
    const found: ShownMessage[] = [];
    for (let index = from; index < to; index += 1) {
      const message = this.exhibit.message(log, index);
      if (message) {
        found.push(shownMessage({ index, message }));
      }
    }
    return found;
  }

  /** In the present, and in what each timeline has beside it. */
  private async search(search: number, query: string): Promise<void> {
    this.searching = search;
    const wanted = query.toLowerCase();
    const hits: Hit[] = [];
    let since = performance.now();
    for (const log of this.exhibit.logs) {
      for (let index = log.id === undefined ? 0 : common(log, this.exhibit.log(undefined)); index < log.messages && hits.length < HITS; index += 1) {
        const text = this.textOf(log, index);
        const at = text.toLowerCase().indexOf(wanted);
        if (at >= 0) {
          hits.push({ index, preview: text.slice(Math.max(0, at - PREVIEW / 3), at + PREVIEW), ...(log.id === undefined ? {} : { timeline: log.id }) });
        }
        if (performance.now() - since > SLICE) {
          await new Promise((resolve) => setTimeout(resolve));
          if (search !== this.searching) {
            return;
          }
          since = performance.now();
        }
      }
    }
    this.take({ kind: "hits", search, hits, more: hits.length >= HITS });
  }

  private textOf(log: Log, index: number): string {
    const message = this.exhibit.message(log, index);
    if (!message) {
      return "";
    }
    const said = partsOf(message).map((part) => ("text" in part ? part.text : ""));
    return [...said, ...callsOf(message).map((call) => `${call.function.name} ${textAt(message, { index, call: callsOf(message).indexOf(call) }) ?? ""}`)].join("\n");
  }

  private compare(from: Point, to: Point): void {
    const [left, right] = [this.side(from), this.side(to)];
    const same = Math.min(common(left.log, right.log), left.end, right.end);
    const part = ({ log, end }: typeof left): ShownMessage[] => this.messages(log, same, Math.min(end, same + SHOWN));
    this.take({
      kind: "comparison",
      names: [left.name, right.name],
      common: same,
      removed: part(left),
      added: part(right),
      removedCount: left.end - same,
      addedCount: right.end - same,
      ...(left.tokens === undefined || right.tokens === undefined ? {} : { tokens: [left.tokens, right.tokens] as const }),
    });
  }

  private side({ timelineId, end, name, tokens }: Point): { readonly log: Log; readonly end: number; readonly name: string; readonly tokens: number | undefined } {
    const log = this.exhibit.log(timelineId);
    const whole = end === undefined;
    return { log, end: Math.min(log.messages, end ?? log.messages), name: name ?? (log.id === undefined ? say("present") : this.nameOf(log)), tokens: tokens ?? (whole && log.facts.tokens > 0 ? log.facts.tokens : undefined) };
  }

  private act(action: string, index: number): void {
    const message = this.exhibit.message(this.shown, index);
    if (!message) {
      return;
    }
    if (action === "compare") {
      this.compare({ ...(this.shown.id === undefined ? {} : { timelineId: this.shown.id }), end: index + 1, name: `#${index} ${roleName(message.role)}` }, {});
    } else if (action === "json") {
      void navigator.clipboard.writeText(messageAsJson(JSON.stringify({ result: { messages: [{ message }] } })));
    } else if (action === "markdown") {
      void navigator.clipboard.writeText(messageAsMarkdown(index, message, roleName));
    }
  }

  private address(index: number): void {
    const id = this.shown.id ?? "present";
    try {
      history.replaceState(null, "", index >= this.shown.messages ? `#${id}` : `#${id}/${index}`);
    } catch {
      // A browser may refuse it to a page that asks too often; the address is but a convenience.
    }
  }
}
