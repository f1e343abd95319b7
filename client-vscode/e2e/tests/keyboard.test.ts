import type { Locator } from "@playwright/test";
import { expect, picture, test } from "../support/test";
import { MOMENT, WHILE, patiently } from "../window/patience";
import { pathToFileURL } from "node:url";

// 85 turns of an agent, one edit each; after the edit of part61.py the test that is run with every fifth one fails.
const TURNS = 85;
const BROKEN = 61;
const ERROR = "assert total(100) == 14";

function turn(number: number): object[] {
    const edit = call(`e${String(number)}`, "edit", { path: `src/part${String(number)}.py` });
    const edited = { role: "tool", tool_call_id: `e${String(number)}`, content: "1 line replaced" };
    if (number % 5 !== 4) return [edit, edited];
    const failed = number > BROKEN && number < BROKEN + 5;
    const result = failed ? `<system>ERROR: command failed with exit code 1</system>\nE   ${ERROR}\n1 failed, 11 passed` : "12 passed";
    return [edit, edited, call(`t${String(number)}`, "run", { command: "pytest -q" }), { role: "tool", tool_call_id: `t${String(number)}`, content: result }];
}

function call(id: string, name: string, given: object): object {
    return { role: "assistant", content: "", tool_calls: [{ type: "function", id, function: { name, arguments: JSON.stringify(given) } }] };
}

const LOG = Array.from({ length: TURNS }, (_, number) => [{ role: "_checkpoint" }, ...turn(number)])
    .flat()
    .map((record) => JSON.stringify(record))
    .join("\n");

test.beforeAll(async ({ workbench, store, window }) => {
    await store.replay("long-day", LOG, { title: "A long day", workspace: pathToFileURL(workbench.folder).href });
    await workbench.open();
    await window.show();
    await window.openSession("A long day");
});

test("with the keyboard alone a person finds the edit that broke the test, goes back to before it, and undoes that", async ({ window, store }) => {
    const { keyboard } = window.page;
    const before = store.log("long-day");
    expect(store.checkpoints("long-day")).toHaveLength(TURNS);
    const edit = window.checkpoints.checkpoint(`part${String(BROKEN)}.py`);

    // To the view, and by a word of the failure to the turn in which the test was run.
    await patiently(async () => {
        await keyboard.press("F1");
        await window.quick.input.fill(">Timeleap: Focus on Checkpoints View", { timeout: MOMENT });
        await keyboard.press("Enter");
        await expect(window.checkpoints.root).toBeFocused({ timeout: MOMENT });
    });
    await keyboard.press("Control+g");
    const box = window.quick.saying("Go to Checkpoint");
    await box.waitFor({ timeout: WHILE });
    await keyboard.type(ERROR);
    await expect(window.quick.options.filter({ hasText: ERROR })).toHaveCount(1);
    await keyboard.press("Enter");
    const failed = window.checkpoints.failing(1);
    await expect(failed).toHaveAttribute("aria-selected", "true");
    await picture(window, "keyboard");

    // Older turns are below: three edits, and then the one that the failure is about.
    for (let step = 0; step < 4 && !(await isFocused(edit)); step += 1) await keyboard.press("ArrowDown");
    await expect.poll(() => isFocused(edit)).toBe(true);
    await keyboard.press("Delete");
    await expect.poll(() => store.checkpoints("long-day")).toHaveLength(BROKEN);
    await expect(edit).toHaveCount(0);

    // Undone where one is.
    await expect(window.checkpoints.root).toBeFocused();
    await keyboard.press("Alt+ArrowLeft");
    await expect.poll(() => store.log("long-day")).toBe(before);
    await expect(window.checkpoints.rows.first()).toHaveAttribute("aria-setsize", String(TURNS));
});

/** The row under the keyboard; the tree itself has the focus, and names the row. */
async function isFocused(row: Locator): Promise<boolean> {
    return (await row.count()) === 1 && /\bfocused\b/.test((await row.getAttribute("class")) ?? "");
}
