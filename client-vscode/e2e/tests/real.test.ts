import { SAMPLE_SESSION } from "../support/places";
import type { LogRecord } from "../support/store";
import { expect, test } from "../support/test";
import { readFileSync, readdirSync } from "node:fs";
import { basename, join } from "node:path";
import { pathToFileURL } from "node:url";

/** Logs of agents at work: the sample, and those of the folder that `TIMELEAP_SESSIONS_DIR` names. */
function logs(): string[] {
    const folder = process.env["TIMELEAP_SESSIONS_DIR"];
    const named = folder ? readdirSync(folder).filter((name) => name.endsWith(".jsonl")).sort() : [];
    return [SAMPLE_SESSION, ...named.map((name) => join(folder ?? "", name))];
}

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
        const newest = window.checkpoints.root.locator(`[role=treeitem][aria-label^="Checkpoint ${String(written - 1)}: "]`);
        await window.checkpoints.expand(newest);
        const below = Number(await newest.getAttribute("aria-level")) + 1;
        const span = records.slice(records.findLastIndex(({ role }) => role === "_checkpoint"));
        await expect(window.checkpoints.root.locator(`[role=treeitem][aria-level="${String(below)}"]`)).toHaveCount(span.map(rows).reduce((sum, one) => sum + one, 0));
        await window.checkpoints.collapse(newest);
    });
}

/** How many rows a record has: its text, and each of its tool calls; results stand beside their calls. */
function rows({ role, content, tool_calls: calls = [] }: LogRecord): number {
    if (role.startsWith("_") || role === "tool") return 0;
    const called = (calls as unknown[]).length;
    return called + (content === "" && called > 0 ? 0 : 1);
}
