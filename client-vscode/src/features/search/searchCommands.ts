/** Searching: results come while one types; the chosen one is shown in its conversation, with the words marked. */

import * as vscode from "vscode";
import { withoutIcons } from "../../shared/text/say.js";
import { Disposables } from "../../shared/lifecycle.js";
import { messageOf, isTimeleapError } from "../../shared/errors.js";
import { previewOf, Search, type Hit } from "../../kit/search.js";
import type { Session } from "../../core/sessions/session.js";
import { exact } from "../../shared/text/format.js";
import { timelineName } from "../../kit/branches.js";
import { timelinesOf } from "../../kit/timelines.js";
import type { Handlers, Workbench } from "../../core/commands/register.js";
import { verbOf } from "../../shared/text/titles.js";
import { headed } from "../../shared/text/detail.js";

/** Milliseconds without a keystroke after which is searched. */
const PAUSE = 200;
/** Results that are looked for before the person is asked whether there shall be more. */
const WANTED = 30;

export function searchCommands(bench: Workbench): Handlers {
  return {
    // Where no session is shown, all of them.
    search: () => Promise.resolve().then(() => show(bench, bench.sessions.shown)),
  };
}

function show(bench: Workbench, session: Session | undefined): void {
  new SearchBox(bench, session).show();
}

interface Choice extends vscode.QuickPickItem {
  readonly run?: () => void;
}

type Toggle = "matchCase" | "regex";

class SearchBox extends Disposables {
  private readonly box = this.register(vscode.window.createQuickPick<Choice>());
  private readonly toggles: Record<Toggle, boolean> = { matchCase: false, regex: false };
  private readonly buttons = new Map<vscode.QuickInputButton, () => void>();
  /** Names of sessions, or of the shown session's timelines, by id. */
  private names = new Map<string, string>();
  private waiting: NodeJS.Timeout | undefined;
  private search: Search | undefined;
  private abort = new AbortController();

  /** @param session undefined: all sessions are searched */
  constructor(
    private readonly bench: Workbench,
    private session: Session | undefined,
  ) {
    super();
    // Results stay in the order they come in, under their headings. The setter has been there for years and is not in the types.
    Object.assign(this.box, { sortByLabel: false });
    this.box.matchOnDescription = false;
    this.box.keepScrollPosition = true;
    this.register(this.box.onDidChangeValue(() => this.later()));
    this.register(this.box.onDidAccept(() => this.box.selectedItems[0]?.run?.()));
    this.register(this.box.onDidTriggerButton((button) => this.buttons.get(button)?.()));
    this.register(this.box.onDidHide(() => this.dispose()));
  }

  show(): void {
    this.describe();
    this.box.show();
    void this.learnNames();
  }

  override dispose(): void {
    clearTimeout(this.waiting);
    this.abort.abort();
    super.dispose();
  }

  /** What is searched and how stands in the title: buttons alone do not say whether they are on. */
  private describe(): void {
    const { matchCase, regex } = this.toggles;
    const where = this.session ? headed(verbOf("search"), this.session.name) : vscode.l10n.t("Search all sessions");
    this.box.title = [
      where,
      ...(matchCase ? [vscode.l10n.t("Match case")] : []),
      ...(regex ? [vscode.l10n.t("Regular expression")] : []),
    ].join(" · ");
    this.box.placeholder = verbOf("search");
    this.buttons.clear();
    this.button("case-sensitive", vscode.l10n.t("Match case"), () => this.flip("matchCase"));
    this.button("regex", vscode.l10n.t("Regular expression"), () => this.flip("regex"));
    const { shown } = this.bench.sessions;
    if (shown) {
      this.button("list-tree", this.session ? vscode.l10n.t("Search all sessions") : headed(verbOf("search"), shown.name), () => {
        this.session = this.session ? undefined : shown;
        void this.learnNames();
        this.changed();
      });
    }
    this.box.buttons = [...this.buttons.keys()];
  }

  private button(icon: string, tooltip: string, run: () => void): void {
    this.buttons.set({ iconPath: new vscode.ThemeIcon(icon), tooltip }, run);
  }

  private flip(toggle: Toggle): void {
    this.toggles[toggle] = !this.toggles[toggle];
    this.changed();
  }

  private changed(): void {
    this.describe();
    this.later(0);
  }

  private later(pause = PAUSE): void {
    clearTimeout(this.waiting);
    this.abort.abort(); // what is under way is not wanted any more
    this.waiting = setTimeout(() => this.begin(), pause);
  }

  private begin(): void {
    const query = this.box.value;
    const { matchCase, regex } = this.toggles;
    this.search =
      query.trim() === ""
        ? undefined
        : new Search(this.bench.sidecar, { query, regex, ignoreCase: !matchCase, ...(this.session ? { sessionId: this.session.id } : {}) });
    this.box.items = [];
    this.box.busy = false;
    if (this.search) {
      void this.more(this.search);
    }
  }

  /** Looks for some more results, and shows them as they come. */
  private async more(search: Search): Promise<void> {
    const abort = (this.abort = new AbortController());
    const before = search.hits.length;
    this.box.busy = true;
    try {
      do {
        await search.next({ signal: abort.signal });
        if (abort.signal.aborted) {
          return;
        }
        this.draw(search);
      } while (search.hasMore && search.hits.length < before + WANTED);
      this.box.busy = false;
    } catch (error) {
      if (!abort.signal.aborted) {
        this.box.busy = false;
        this.fail(error);
      }
    }
  }

  private fail(error: unknown): void {
    if (isTimeleapError(error, "contentModified")) {
      this.begin(); // the log was rewritten between two pages
      return;
    }
    this.box.items = [{ label: `$(error) ${withoutIcons(messageOf(error))}`, alwaysShow: true }];
  }

  private draw(search: Search): void {
    const items: Choice[] = [];
    let heading = "";
    for (const hit of search.hits) {
      const under = this.heading(hit);
      if (under !== heading) {
        heading = under;
        items.push({ label: under, kind: vscode.QuickPickItemKind.Separator });
      }
      items.push(this.choice(hit));
    }
    if (search.hasMore) {
      const label = vscode.l10n.t("Show More");
      items.push({ label: `$(ellipsis) ${label}`, alwaysShow: true, run: () => void this.more(search) });
    } else if (search.hits.length === 0) {
      items.push({ label: vscode.l10n.t("Nothing found"), alwaysShow: true });
    }
    if (search.unread.length > 0) {
      items.push({ label: `$(warning) ${vscode.l10n.t("Not everything could be searched")}`, detail: withoutIcons([...new Set(search.unread)].join(" · ")), alwaysShow: true });
    }
    const active = this.box.items.indexOf(this.box.activeItems[0] ?? ({} as Choice));
    this.box.items = items;
    const again = items[active];
    if (active > 0 && again) {
      this.box.activeItems = [again];
    }
  }

  private choice(hit: Hit): Choice {
    const { index, timelineId, ranges } = hit;
    const aside = timelineId === undefined ? [] : [`${this.names.get(timelineId) ?? timelineId} ${vscode.l10n.t("(set aside)")}`];
    const more = ranges.length > 1 ? [`${exact(ranges.length)}×`] : [];
    return {
      label: withoutIcons(previewOf(hit)) || `#${exact(index)}`,
      description: [`#${exact(index)}`, ...more, ...aside].join(" · "),
      iconPath: new vscode.ThemeIcon(timelineId === undefined ? "comment" : "history"),
      alwaysShow: true,
      run: () => {
        const { sessionId, timelineId: timeline } = hit;
        const query = this.toggles.regex ? {} : { query: this.box.value };
        this.box.hide();
        void vscode.commands.executeCommand("timeleap.openConversation", { sessionId: this.session?.id ?? sessionId, index, ...query, ...(timeline === undefined ? {} : { timeline }) });
      },
    };
  }

  /** In all sessions: which one; in one session: whether it is in the present log. */
  private heading({ sessionId, timelineId }: Hit): string {
    if (!this.session) {
      return this.names.get(sessionId) ?? sessionId;
    }
    return timelineId === undefined ? vscode.l10n.t("Present") : (this.names.get(timelineId) ?? timelineId);
  }

  /** Results are shown without them until they are known. */
  private async learnNames(): Promise<void> {
    const { session } = this;
    try {
      const named = session
        ? (await timelinesOf(session).list()).map((timeline): [string, string] => [timeline.timelineId, timelineName(timeline)])
        : (await this.bench.sessions.list({ limit: 500, includeArchived: true })).sessions.map((info): [string, string] => [info.sessionId, info.title ?? info.sessionId]);
      this.names = new Map([...this.names, ...named]);
    } catch {
      // Ids do as well.
    }
  }
}
