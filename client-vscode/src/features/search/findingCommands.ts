/** Finding one's way among checkpoints: going to one of them, the oldest included, and showing only those in which something stands. */

import * as vscode from "vscode";
import type { Checkpoint } from "timeleap-client";
import { Disposables } from "../../shared/lifecycle.js";
import { isTimeleapError, messageOf } from "../../shared/errors.js";
import { previewOf, Search } from "../../kit/search.js";
import type { Session } from "../../core/sessions/session.js";
import { age, exact, messages } from "../../shared/text/format.js";
import { checkpointName } from "../../shared/text/happened.js";
import { withoutIcons } from "../../shared/text/say.js";
import type { Handlers, Workbench } from "../../core/commands/register.js";
import { report } from "../../core/commands/report.js";
import { Filtering } from "./filtering.js";
import { shownSession } from "../../core/commands/targets.js";
import { verbOf } from "../../shared/text/titles.js";

/** Milliseconds without a keystroke after which is searched. */
const PAUSE = 200;
/** Messages that are looked at for a filter, and results that a list shows. */
const MOST = 2_000;
const LISTED = 50;

export function findingCommands(bench: Workbench): Handlers {
  const filtering = new Filtering(bench);
  return {
    // What refuses has to refuse by the promise.
    goToCheckpoint: () => Promise.resolve().then(() => new GoTo(bench, filtering, shownSession(bench.sessions)).show()),
  };
}

/** Shows only the checkpoints after which the words stand; without words all again. */
async function filter(bench: Workbench, filtering: Filtering, session: Session, query: string): Promise<void> {
  if (query.trim() === "") {
    filtering.end();
    return;
  }
  const working = { location: { viewId: "timeleap.checkpoints" } };
  const indexes = await vscode.window.withProgress(working, () => indexesOf(bench, session, query));
  await filtering.show({ session, query, indexes });
}

/** The messages of the present conversation in which the words stand. */
async function indexesOf(bench: Workbench, session: Session, query: string): Promise<number[]> {
  const search = new Search(bench.sidecar, { query, regex: false, ignoreCase: true, timelines: false, sessionId: session.id });
  do {
    await search.next();
  } while (search.hasMore && search.hits.length < MOST);
  return search.hits.map(({ index }) => index);
}

interface Choice extends vscode.QuickPickItem {
  readonly run?: () => Promise<void>;
}

/** The loaded checkpoints; with words typed, those in which the server finds them. */
class GoTo extends Disposables {
  private readonly box = this.register(vscode.window.createQuickPick<Choice>());
  private waiting: NodeJS.Timeout | undefined;
  private abort = new AbortController();

  constructor(
    private readonly bench: Workbench,
    private readonly filtering: Filtering,
    private readonly session: Session,
  ) {
    super();
    Object.assign(this.box, { sortByLabel: false }); // the order of the conversation stays; the setter is not in the types
    this.box.title = verbOf("goToCheckpoint");
    this.box.placeholder = verbOf("search");
    this.box.matchOnDescription = true;
    this.box.value = filtering.query ?? "";
    this.box.buttons = [{ iconPath: new vscode.ThemeIcon("filter"), tooltip: vscode.l10n.t("Show only the checkpoints after which these words stand") }];
    this.register(
      this.box.onDidTriggerButton(() => {
        const { value } = this.box;
        this.box.hide();
        filter(bench, filtering, session, value).catch((error: unknown) => report(error, bench));
      }),
    );
    this.register(this.box.onDidChangeValue(() => this.later()));
    this.register(this.box.onDidHide(() => this.dispose()));
    this.register(
      this.box.onDidAccept(() => {
        const [chosen] = this.box.selectedItems;
        if (chosen === undefined) {
          return; // the list was replaced just when somebody clicked
        }
        this.box.hide();
        chosen.run?.().catch((error: unknown) => report(error, bench));
      }),
    );
  }

  show(): void {
    this.box.show();
    void this.fill();
  }

  override dispose(): void {
    clearTimeout(this.waiting);
    this.abort.abort();
    super.dispose();
  }

  private later(): void {
    clearTimeout(this.waiting);
    this.abort.abort();
    this.box.items = []; // Enter must not choose what was found for other words
    this.box.busy = true;
    this.waiting = setTimeout(() => void this.fill(), PAUSE);
  }

  private async fill(): Promise<void> {
    const abort = (this.abort = new AbortController());
    this.box.busy = true;
    try {
      const items = this.box.value.trim() === "" ? await this.loaded() : await this.found(abort.signal);
      if (!abort.signal.aborted) {
        this.box.items = items;
        this.box.busy = false;
      }
    } catch (error) {
      if (!abort.signal.aborted) {
        this.box.busy = false;
        this.box.items = isTimeleapError(error, "contentModified") ? [] : [{ label: `$(error) ${withoutIcons(messageOf(error))}`, alwaysShow: true }];
      }
    }
  }

  private async loaded(): Promise<Choice[]> {
    const spans = await this.session.log.spans();
    return [...spans.map(({ checkpoint }) => this.choice(checkpoint)), this.oldest];
  }

  private readonly oldest: Choice = {
    label: `$(arrow-down) ${vscode.l10n.t("Beginning")}`,
    alwaysShow: true,
    run: () => this.filtering.goTo(this.session, { oldest: true }),
  };

  private choice(checkpoint: Checkpoint): Choice {
    const { id, uid, createdAt, messageCount } = checkpoint;
    return {
      label: withoutIcons(checkpointName(checkpoint)),
      description: [`#${exact(id)}`, createdAt === undefined ? "" : age(createdAt), messages(messageCount)].filter(Boolean).join(" · "),
      run: () => this.filtering.goTo(this.session, { uid }),
    };
  }

  private async found(signal: AbortSignal): Promise<Choice[]> {
    const search = new Search(this.bench.sidecar, { query: this.box.value, regex: false, ignoreCase: true, timelines: false, sessionId: this.session.id });
    do {
      await search.next({ signal });
    } while (search.hasMore && search.hits.length < LISTED);
    const hits = search.hits.map((hit): Choice => {
      const { index } = hit;
      const run = (): Promise<void> => this.filtering.goTo(this.session, { index });
      return { label: withoutIcons(previewOf(hit)) || `#${exact(index)}`, description: `#${exact(index)}`, alwaysShow: true, run };
    });
    const ofNames = (await this.session.log.spans()).filter(({ checkpoint: { label = "" } }) => label.toLowerCase().includes(this.box.value.toLowerCase()));
    const items = [...ofNames.map(({ checkpoint }) => ({ ...this.choice(checkpoint), alwaysShow: true })), ...hits];
    return [...(items.length === 0 ? [{ label: vscode.l10n.t("Nothing found"), alwaysShow: true }] : items), this.oldest];
  }
}
