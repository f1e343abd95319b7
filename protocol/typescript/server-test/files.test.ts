/** Files that go back with the conversation. */

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, realpathSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { TimeleapError, type TimeleapClient } from "../src/index.js";
import { Real } from "../support/real.js";

let real: Real;
let client: TimeleapClient;
let folder: string;

before(async () => {
  real = await Real.make();
  client = await real.start("agent");
  folder = realpathSync(mkdtempSync(join(tmpdir(), "timeleap-files-")));
});

after(async () => {
  await real.end();
  rmSync(folder, { recursive: true });
});

test("a revert takes the files back, an undo brings them again, and a person's edit is refused", async () => {
  const notes = join(folder, "notes.txt");
  writeFileSync(notes, "Ask Ada.");
  const files = { mode: "checkpoint" } as const;
  const { sessionId, path } = await client.request("session/open", { workspace: pathToFileURL(folder).href, files });
  const { checkpoint } = await client.request("context/checkpoint", { sessionId });
  assert.ok(checkpoint.files?.snapshot);
  const at = { sessionId, checkpointUid: checkpoint.uid, restore: "both" } as const;

  rmSync(notes);
  await client.request("context/appendMessage", { sessionId, message: { role: "assistant", content: "done" } });
  const from = { checkpointUid: checkpoint.uid };
  const { changes } = await client.request("files/diff", { sessionId, from, to: {} });
  assert.deepEqual(
    changes.map(({ kind, path }) => [kind, path]),
    [["deleted", "notes.txt"]],
  );
  const heard: string[][] = [];
  client.onNotification("files/didRestore", ({ paths }) => heard.push(paths));
  const reverted = await client.request("context/revertTo", at);
  assert.equal(reverted.files?.added, 1);
  assert.equal(readFileSync(notes, "utf8"), "Ask Ada.");
  assert.deepEqual(heard, [["notes.txt"]]);

  await client.request("context/undo", { sessionId, restore: "both" });
  assert.throws(() => readFileSync(notes));
  const changed = (file: string): bigint => statSync(file, { bigint: true }).ctimeNs;
  do writeFileSync(notes, "a person's");
  while (changed(notes) <= changed(join(path, "context.jsonl")));
  await assert.rejects(client.request("context/revertTo", at), (error) => {
    assert.ok(error instanceof TimeleapError);
    assert.deepEqual([error.kind, error.data["paths"]], ["filesConflict", ["notes.txt"]]);
    return true;
  });
});
