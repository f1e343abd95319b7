import { ConversationPage } from "../window/conversation";
import { OURS, SECOND_BUG, expect, picture, sample, test } from "../support/test";
import { MOMENT, patiently } from "../window/patience";
import type { Window } from "../window/window";
import { pathToFileURL } from "node:url";

test.describe.configure({ mode: "serial" });

const DONE = { role: "tool", tool_call_id: "c", content: "All 25 passed" };
const FAILED = { role: "tool", tool_call_id: "c", content: "E   AssertionError: 114 != 115\n1 failed, 24 passed in 0.10s" };

/** Edits, each followed by the tests, which fail after one of them. */
function edits(count: number, broken: number): string {
    const call = (name: string, given: object): object => ({ id: "c", type: "function", function: { name, arguments: JSON.stringify(given) } });
    const records = Array.from({ length: count }, (_, id) => [
        { role: "_checkpoint", id },
        { role: "assistant", content: "", tool_calls: [call("write_file", { path: `src/tally/part${String(id)}.py`, text: "..." })] },
        { ...DONE, content: "wrote 3 lines" },
        { role: "assistant", content: "", tool_calls: [call("bash", { command: "cd /home/me/tally && python -m pytest -q" })] },
        id === broken ? FAILED : DONE,
        { role: "_usage", token_count: (id + 1) * 1_400 },
    ]);
    return records.flat().map((record) => JSON.stringify(record)).join("\n");
}

test.beforeAll(async ({ workbench, store, window }) => {
    const workspace = pathToFileURL(workbench.folder).href;
    await store.replay("edits", edits(20, 12), { title: "Edits", workspace });
    await store.replay("bill", sample(), { title: "Split among guests", workspace });
    await workbench.open();
    await window.show();
});

test("in a side bar of 300 pixels one can tell which of twenty rows broke the test", async ({ window }) => {
    await window.openSession("Edits");
    await window.widen(348);
    const failed = window.checkpoints.failing(1);
    await expect(failed).toHaveCount(1);
    await expect(failed.locator(".codicon-error")).toBeVisible();
    await expect(failed).toHaveAccessibleName(/^Checkpoint 12: python -m pytest -q, \+4 messages, \+1\.4K tokens, 1 failed$/);
    // The badge stands at the right end, where nothing is cut.
    const badge = await failed.locator(".monaco-icon-label").first().evaluate((label) => getComputedStyle(label, "::after").content);
    expect(badge).toContain("✗");
    await picture(window, "narrow");
    await toldApart(window);
    await window.openSession("Split among guests");
    await window.checkpoints.expand(window.checkpoints.row("Guests complain", 1)); // an older turn
    await window.checkpoints.collapse(window.checkpoints.row("That is not fair", 1).first());
    await toldApart(window);
    expect((await window.checkpoints.painted()).some((text) => text.endsWith("…"))).toBe(true); // it is narrow
    await picture(window, "narrow-turns");
    await window.openSession("Edits");
    await window.widen(720);
});

/** No two checkpoints in sight are painted alike. */
async function toldApart({ checkpoints }: Window): Promise<void> {
    // A row that was drawn anew gets its steps a moment later.
    await patiently(async () => {
        const painted = await checkpoints.painted();
        expect(painted.length).toBeGreaterThan(5);
        expect(painted.filter((text, at) => painted.indexOf(text) !== at)).toEqual([]);
    });
}

test("the tooltip of a row says more than the row, and goes when the mouse does", async ({ window, store }) => {
    const prompt = `Find why the second half is wrong. ${"Look at every line of the report before you change it. ".repeat(8)}Then stop.`;
    await store.replay("wordy", [{ role: "_checkpoint", id: 0 }, { role: "user", content: prompt }].map((record) => JSON.stringify(record)).join("\n"), { title: "Wordy" });
    await window.openSession("Wordy");
    const hover = window.page.locator(".monaco-hover:visible");
    await window.checkpoints.row("Find why", 1).hover();
    await expect(hover).toContainText("Then stop.");
    await picture(window, "tooltip", { hovering: true });
    await window.page.mouse.move(900, 300, { steps: 10 });
    await expect(hover).toHaveCount(0);
    await window.openSession("Edits");
});

test("a checkpoint is gone to by words that stand after it, and the oldest at once", async ({ window }) => {
    await window.run("goToCheckpoint");
    await window.quick.chooseFound("Go to Checkpoint", "114 != 115");
    await expect(window.checkpoints.failing(1)).toHaveAttribute("aria-selected", "true");
    await window.run("goToCheckpoint");
    await window.quick.choose("Go to Checkpoint", "Beginning");
    await expect(window.checkpoints.row(/part0\.py/, 1)).toHaveAttribute("aria-selected", "true");
});

test("the checkpoints are filtered on the server, and all shown again", async ({ window }) => {
    await window.run("goToCheckpoint");
    await window.quick.saying("Go to Checkpoint").waitFor();
    await window.quick.input.fill("AssertionError");
    await window.quick.root.getByRole("button", { name: "Show only the checkpoints after which these words stand" }).click();
    await expect(window.saying("Only checkpoints with “AssertionError”")).toBeVisible();
    await expect.poll(() => window.checkpoints.texts()).toHaveLength(2);
    await expect(window.checkpoints.failing(1)).toBeVisible();
    await picture(window, "filter");
    await window.checkpoints.row("Show all checkpoints", 1).click();
    await expect.poll(async () => (await window.checkpoints.texts()).length).toBeGreaterThan(10);
});

test("any two checkpoints are compared: one with another that is chosen", async ({ window }) => {
    await window.openSession("Split among guests");
    const page = new ConversationPage(window.page);
    const row = window.checkpoints.row("The shares add", 1).or(window.checkpoints.row("That is not fair", 1));
    await window.compare(row, "python -c", page.over);
    await expect(page.side("added")).toContainText("That is not fair");
    await expect(page.side("removed").locator("article")).toHaveCount(0);
    await picture(window, "compare-any");
    await window.closeEditors();
});

test("two selected checkpoints are compared with each other", async ({ window }) => {
    const page = new ConversationPage(window.page);
    const [first, second] = [window.checkpoints.row("That is not fair", 1), window.checkpoints.row(SECOND_BUG, 1)];
    await patiently(async () => {
        await second.locator(".monaco-icon-label").click({ timeout: MOMENT });
        await first.locator(".monaco-icon-label").click({ modifiers: ["ControlOrMeta"], timeout: MOMENT });
        for (const row of [first, second]) await expect(row).toHaveAttribute("aria-selected", "true", { timeout: MOMENT });
    });
    const entry = await window.checkpoints.openMenu(second, window.texts.command("compare"));
    await expect(entry).toBeVisible();
    await picture(window, "compare-selected", { hovering: true });
    await window.checkpoints.command(second, window.texts.command("compare"), page.over);
    await expect(page.over.locator("h2")).toHaveText(/That is not fair.* python -c/); // the earlier one is the left side
    await expect(page.side("added")).toContainText("That is not fair");
    await window.closeEditors();
});

test("the rows stand newest or oldest first, as the settings say", async ({ window, workbench }) => {
    await window.openSession("Edits");
    await expect.poll(async () => (await window.checkpoints.texts())[0]).toMatch(/part19\.py|pytest/);
    const failed = window.checkpoints.failing(1);
    const place = async (): Promise<number> => (await window.checkpoints.texts()).findIndex((text) => text.includes("pytest"));
    await expect(failed).toBeVisible();
    await expect.poll(place).toBe(19 - 12);
    try {
        workbench.configure({ ...OURS, "timeleap.order": "oldestFirst" });
        await expect.poll(place).toBe(12);
        await picture(window, "oldest-first");
        await window.ask("createCheckpoint", "Name; it may be empty", "the newest of all");
        await window.checkpoints.toTheEnd(window.checkpoints.row("the newest of all", 1));
        await expect.poll(async () => (await window.checkpoints.texts()).at(-1)).toContain("the newest of all");
    } finally {
        workbench.configure(OURS);
    }
    await window.checkpoints.root.press("Home"); // it was at the end
    await expect.poll(async () => (await window.checkpoints.texts())[0]).toContain("the newest of all");
    await expect.poll(place).toBe(20 - 12);
    await window.openSession("Split among guests");
});
