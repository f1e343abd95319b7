/** Reading a log back to a checkpoint that nobody has looked at yet. */

import { PAGE, type Log, type Span } from "../core/sessions/log.js";

/** Checkpoints of a page on the way. */
const STRIDE = 1_000;

/** Loads older checkpoints until one is the one that is looked for. Undefined: none is. */
export async function reach(log: Log, wanted: (span: Span) => boolean): Promise<Span | undefined> {
  log.limit = STRIDE;
  try {
    for (;;) {
      const found = (await log.spans()).find(wanted);
      if (found || !log.hasMore) {
        return found;
      }
      await log.more();
    }
  } finally {
    log.limit = PAGE;
  }
}
