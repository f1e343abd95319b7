/** The files that changed in a turn: their names, and on demand what changed in them. */

import { spanKey, type FileSpan, type FromPage, type ShownFile, type ToPage } from "../../src/features/page/wire.js";
import { diff, type CardWords } from "./card.js";
import { button, make } from "./dom.js";
import { changed } from "./edits.js";
import { counted, exact, say } from "./words.js";

/** Files of a turn that are named at once. */
const NAMED = 8;

interface Known {
  readonly files: readonly ShownFile[];
  readonly more: number;
  readonly problem?: string;
}

export class ChangedFiles {
  /** By span; undefined while it is on its way. */
  private readonly known = new Map<string, Known | undefined>();
  /** Those that are asked for again when they are drawn. */
  private readonly stale = new Set<string>();
  private readonly diffs = new Map<string, Extract<ToPage, { kind: "fileDiff" }>>();
  private readonly open = new Set<string>();
  private readonly all = new Set<string>();
  private changes = 0;

  constructor(
    private readonly tell: (message: FromPage) => void,
    private readonly words: CardWords,
    private readonly redraw: () => void,
  ) {}

  /** Changes whenever something of it does. */
  get version(): number {
    return this.changes;
  }

  /** Everything is asked for anew: of the disk, or after a rewrite. */
  forget(): void {
    this.known.clear();
    this.diffs.clear();
    this.changes += 1;
  }

  /** What changed until now may be something else now. It stays in sight until that is known. */
  forgetDisk(): void {
    for (const key of [...this.known.keys()].filter((one) => one.endsWith(">"))) {
      this.stale.add(key);
      [...this.diffs.keys()].filter((one) => one.startsWith(`${key}/`)).forEach((one) => this.diffs.delete(one));
    }
    this.changes += 1;
  }

  take(message: Extract<ToPage, { kind: "files" | "fileDiff" }>): void {
    if (message.kind === "files") {
      this.known.set(spanKey(message.span), message);
    } else {
      this.diffs.set(`${spanKey(message.span)}/${message.file}`, message);
    }
    this.changes += 1;
    this.redraw();
  }

  /** Undefined: no file changed, or that is not known yet. `given`: what is known without asking. */
  element(span: FileSpan, given?: readonly ShownFile[]): HTMLElement | undefined {
    const key = spanKey(span);
    if (given === undefined && (!this.known.has(key) || this.stale.delete(key))) {
      this.known.set(key, this.known.get(key));
      this.tell({ kind: "files", span });
    }
    const known = given ? { files: given, more: 0 } : this.known.get(key);
    if (!known || (known.files.length === 0 && known.problem === undefined)) {
      return undefined;
    }
    const { files, more } = known;
    const count = files.length + Math.max(0, more);
    const shown = this.all.has(key) ? files : files.slice(0, NAMED);
    const left = count - shown.length;
    const rows = shown.map((file, at) => this.file(span, file, at, given === undefined));
    return make("section", { class: "files", "aria-label": say("filesOfTurn") },
      make("p", { class: "files-head" }, known.problem ?? (counted("changedFiles", count, `${exact(count)}${more < 0 ? "+" : ""}`))),
      make("ul", {}, ...rows),
      left > 0 && (shown.length < files.length ? button(say("showMore", left), () => this.toggle(this.all, key), { class: "fold" }) : make("p", { class: "quiet" }, say("andMore", left))));
  }

  private file(span: FileSpan, file: ShownFile, at: number, readable: boolean): HTMLElement {
    const key = `${spanKey(span)}/${at}`;
    const name = make("bdi", { class: "file-path" }, file.path);
    const kind = make("span", { class: `file-kind ${file.kind}` }, kindName(file.kind));
    if (!readable) {
      return make("li", {}, kind, name);
    }
    const open = this.open.has(key);
    const show = button(`${kindName(file.kind)} ${file.path}`, () => {
      if (!this.diffs.has(key)) {
        this.tell({ kind: "fileDiff", span, file: at });
      }
      this.toggle(this.open, key);
    }, { class: "file", "aria-expanded": String(open) }, kind, " ", name);
    const side = button(say("openDiff"), () => this.tell({ kind: "openDiff", span, file: at }), { class: "link" });
    return make("li", {}, make("div", { class: "file-row" }, show, side), open && this.diff(key, file));
  }

  private diff(key: string, { path }: ShownFile): HTMLElement {
    const found = this.diffs.get(key);
    if (!found) {
      return make("p", { class: "quiet" }, say("loading"));
    }
    if (found.problem !== undefined) {
      return make("p", { class: "quiet" }, found.problem);
    }
    const lines = changed(found.before, found.after);
    return lines.length === 0 ? make("p", { class: "quiet" }, say("sameText")) : diff({ path, lines }, this.words);
  }

  private toggle(set: Set<string>, key: string): void {
    if (!set.delete(key)) {
      set.add(key);
    }
    this.changes += 1;
    this.redraw();
  }
}

function kindName(kind: ShownFile["kind"]): string {
  return say({ added: "fileAdded", modified: "fileModified", deleted: "fileDeleted", type: "fileType", mode: "fileMode" }[kind] as "fileAdded");
}

/** "3 files changed", where that is known. */
export function changedCount(count: number | undefined): string {
  return count === undefined || count === 0 ? "" : counted("changedFiles", count, exact(count));
}
