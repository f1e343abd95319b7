/** Rows of agents at work: the sample, and the logs of the folder that `TIMELEAP_SESSIONS_DIR` names. */

import { readdirSync } from "node:fs";
import { basename, join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { SAMPLE, seed } from "../support/data.js";
import { start, type Row, type Running } from "../support/extension.js";
import { user } from "../support/vscode.js";
import { painted } from "../support/widths.js";
import { labels, open } from "./support.js";

const folder = process.env["TIMELEAP_SESSIONS_DIR"];
const logs = [SAMPLE, ...(folder === undefined ? [] : readdirSync(folder).filter((name) => name.endsWith(".jsonl")).map((name) => join(folder, name)))];
const ROWS = 20;

let running: Running;

beforeEach(() => {
  user.reset();
  running = start();
});

afterEach(() => running.stop());

/** All rows, with the turns and what was said in them unfolded. */
async function unfolded(parent?: Row): Promise<Row[]> {
  const rows = await running.rows("checkpoints", parent?.node);
  const checkpoints = rows.filter(({ item }) => item.contextValue === "checkpoint");
  const inside = new Map(await Promise.all(checkpoints.map(async (row) => [row, await unfolded(row)] as const)));
  return rows.flatMap((row) => [row, ...(inside.get(row) ?? [])]);
}

test.each(logs.map((log) => [basename(log, ".jsonl"), log]))("in a side bar of 300 pixels 20 rows of %s are told apart", async (name, log) => {
  seed(running.home, name, log);
  await open(name);
  const checkpoints = (await unfolded()).filter(({ item }) => item.contextValue === "checkpoint");
  const seen = labels(checkpoints).map((label) => painted(label));
  const windows = Array.from({ length: Math.max(1, seen.length - ROWS + 1) }, (_, at) => seen.slice(at, at + ROWS));
  const told = windows.filter((rows) => new Set(rows).size === rows.length);
  expect(told.length / windows.length).toBeGreaterThanOrEqual(0.95);
  expect(seen.length).toBeGreaterThan(2);
});
