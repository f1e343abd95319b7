/** A list that the server gives out by pages, as far as somebody has asked for it. */

export interface Page<T> {
  readonly entries: readonly T[];
  readonly nextCursor: string | undefined;
}

export class Pages<T> {
  private loaded: T[] = [];
  private count = 0;
  /** How many pages have been asked for; after a reset they are asked for again. */
  private wanted = 1;
  private cursor: string | undefined;
  private loading: Promise<void> | undefined;
  /** Changes when what was read is no longer true. */
  private epoch = 0;
  private whole = false;

  constructor(private readonly ask: (cursor: string | undefined) => Promise<Page<T>>) {}

  /** How many entries are loaded; undefined: none has been asked for. */
  get size(): number | undefined {
    return this.count === 0 ? undefined : this.loaded.length;
  }

  /** As of the page that was read last: a reset changes nothing about the list that somebody has in hand. */
  get hasMore(): boolean {
    return !this.whole;
  }

  /** What is loaded; the first page is loaded if nothing is, and after a reset as many pages as before. */
  async list(): Promise<readonly T[]> {
    // A reset while a page was on its way leaves nothing loaded; then it is asked for again.
    while (this.count === 0 || (!this.whole && (this.count < this.wanted || this.loaded.length === 0))) {
      await this.next();
    }
    return this.loaded;
  }

  /** Loads one more page. Calls that come meanwhile share it. */
  more(): Promise<void> {
    this.wanted = Math.max(this.wanted, this.count + 1);
    return this.next();
  }

  reset(): void {
    this.epoch += 1;
    this.loaded = [];
    this.count = 0;
    this.cursor = undefined;
    this.loading = undefined;
  }

  private async next(): Promise<void> {
    const loading = (this.loading ??= this.load());
    try {
      await loading;
    } finally {
      if (this.loading === loading) {
        this.loading = undefined;
      }
    }
  }

  private async load(): Promise<void> {
    if (this.count > 0 && this.whole) {
      return;
    }
    const { epoch } = this;
    const page = await this.ask(this.cursor);
    if (epoch === this.epoch) {
      this.loaded.push(...page.entries);
      this.count += 1;
      this.cursor = page.nextCursor;
      this.whole = page.nextCursor === undefined;
    }
  }
}
