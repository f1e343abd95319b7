import { SAMPLE_SESSION } from "../support/places";
import type { LogRecord } from "../support/store";
import { THROUGH_MIDDLEMAN, expect, test } from "../support/test";
import { readFileSync, readdirSync } from "node:fs";
import { basename, join } from "node:path";
import { pathToFileURL } from "node:url";

/** Logs of agents at work: the sample, and those of the folder that `TIMELEAP_SESSIONS_DIR` names. */
function logs(): string[] {
    const folder = process.env["TIMELEAP_SESSIONS_DIR"];
    const named = folder ? readdirSync(folder).filter((name) => name.endsWith(".jsonl")).sort() : [];
    return [SAMPLE_SESSION, ...named.map((name) => join(folder ?? "", name))];
}

test.use({ setup: THROUGH_MIDDLEMAN }); // it is not needed, but its workbench is there

test.beforeAll(async ({ workbench, window }) => {
    await workbench.open();
    await window.show();
});

for (const file of logs()) {
    const name = basename(file, ".jsonl");

    test(`the session ${name} is shown whole, message by message`, async ({ workbench, store, window }) => {
        const log = readFileSync(file, "utf8");
        const records = log.trimEnd().split("\n").map((line) => JSON.parse(line) as LogRecord);
        const written = records.filter(({ role }) => role === "_checkpoint").length;
        await store.replay(`real-${name}`, log, { title: `Run of ${name}`, workspace: pathToFileURL(workbench.folder).href });
        await window.openSession(`Run of ${name}`);
        const newest = window.checkpoints.rows.first();
        const all = written + (startsBefore(records) ? 1 : 0);
        await expect(newest).toHaveAttribute("aria-setsize", String(all)); // the tree paints only what fits
        await window.checkpoints.expand(newest);
        const span = records.slice(records.findLastIndex(({ role }) => role === "_checkpoint"));
        await expect(window.checkpoints.row(/\S/, 2)).toHaveCount(span.map(rows).reduce((sum, one) => sum + one, 0));
        await window.checkpoints.collapse(newest);
    });
}

/** Whether there are messages before the first checkpoint, which stand in a row of their own. */
function startsBefore(records: LogRecord[]): boolean {
    const first = records.findIndex(({ role }) => role === "_checkpoint");
    return records.slice(0, first).some(({ role }) => !role.startsWith("_"));
}

/** How many rows a record has: its text, and each of its tool calls; results stand beside their calls. */
function rows({ role, content, tool_calls: calls = [] }: LogRecord): number {
    if (role.startsWith("_") || role === "tool") return 0;
    const called = (calls as unknown[]).length;
    return called + (content === "" && called > 0 ? 0 : 1);
}
