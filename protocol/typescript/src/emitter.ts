/** Typed events: who wants to hear, hears, in order; a listener that fails stops nobody else. */

export interface Disposable {
  dispose(): void;
}

export type Listener<T> = (value: T) => unknown;

export class Emitter<Events extends object> {
  private readonly listeners = new Map<keyof Events, Set<{ readonly call: Listener<never> }>>();

  /** @param report Told of listeners that throw or reject. */
  constructor(private readonly report: (text: string) => void) {}

  /** Calls `listener` with each `event` until disposed of. Added twice, it is called twice. */
  on<E extends keyof Events>(event: E, listener: Listener<Events[E]>): Disposable {
    const known = this.listeners.get(event) ?? new Set();
    const entry = { call: listener as Listener<never> };
    this.listeners.set(event, known.add(entry));
    return { dispose: () => void known.delete(entry) };
  }

  emit<E extends keyof Events>(event: E, value: Events[E]): void {
    for (const { call } of [...(this.listeners.get(event) ?? [])]) {
      guard(this.report, `a listener to ${String(event)}`, () => (call as Listener<Events[E]>)(value));
    }
  }

  /** Forgets all listeners. */
  clear(): void {
    this.listeners.clear();
  }
}

/** Calls somebody else's function; whether it throws or rejects, it is reported and harms nobody. */
export function guard(report: (text: string) => void, what: string, call: () => unknown): void {
  const failed = (error: unknown): void =>
    report(`${what} failed: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
  try {
    const outcome = call();
    if (outcome instanceof Promise) {
      outcome.catch(failed);
    }
  } catch (error) {
    failed(error);
  }
}
