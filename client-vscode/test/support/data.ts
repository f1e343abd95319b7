/** Sessions on disk, as another program would have written them. */

import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const SAMPLE = fileURLToPath(new URL("../../../examples/sample-session.jsonl", import.meta.url));

/** Puts a log into a store under that id. */
export function seed(home: string, sessionId: string, records: string | readonly object[]): string {
  const folder = join(home, "sessions", sessionId);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const log = join(folder, "context.jsonl");
  if (typeof records === "string") {
    copyFileSync(records, log);
  } else {
    writeFileSync(log, records.map((record) => `${JSON.stringify(record)}\n`).join(""));
  }
  return folder;
}

/** A conversation of that many turns, each with a checkpoint before it. */
export function turns(count: number): object[] {
  return Array.from({ length: count }, (_, id) => [
    { role: "_checkpoint", id },
    { role: "user", content: `question ${id}` },
    { role: "assistant", content: `answer ${id}` },
    { role: "_usage", token_count: (id + 1) * 100 },
  ]).flat();
}
