import { OURS, expect, picture, sample, test, IMPORTS } from "../support/test";
import { ConversationPage } from "../window/conversation";
import { MOMENT, WHILE, patiently } from "../window/patience";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

test.describe.configure({ mode: "serial" });

test.beforeAll(async ({ workbench, store, window }) => {
    const folder = join(workbench.scratch, "unseen"); // one in which nobody has opened anything yet
    mkdirSync(folder);
    await store.replay("newest", sample(), { title: "Split the bill", workspace: pathToFileURL(folder).href });
    workbench.configure({ ...OURS, "timeleap.openNewest": true });
    await workbench.open({ folder });
    await window.show();
});

test.afterAll(({ workbench }) => {
    workbench.configure(OURS);
});

test("the newest session of the workspace is there without a click, its turns and their steps newest first", async ({ window }) => {
    await expect(window.checkpoints.row(IMPORTS)).toBeVisible();
    const shown = await window.checkpoints.texts();
    expect(shown).toHaveLength(7); // two turns, the steps of the newer one unfolded
    expect(shown[0]).toContain("That is not fair when there are many guests");
    expect(shown[2]).toContain(IMPORTS); // the whole line, and nothing but it
    expect(shown[2]).toMatch(/python -m pytest -q$/);
    expect(shown[6]).toContain("Guests complain");
    await expect(window.checkpoints.row(IMPORTS)).toHaveAccessibleName(/: sed -i '1i import .*, \+2 messages, \+310 tokens$/);
    await picture(window, "checkpoints");
});

test("a checkpoint opens to its messages, with tool calls and their results in pairs", async ({ window }) => {
    const checkpoint = window.checkpoints.row(IMPORTS, 1);
    await window.checkpoints.expand(checkpoint);
    await expect(window.checkpoints.row("I forgot the imports", 2).locator(".codicon-sparkle")).toBeVisible(); // the agent's
    const call = window.checkpoints.row(/^run\(.*sed -i/, 2);
    await expect(call).toContainText("25 passed in 0.09s");
    await expect(call.locator(".codicon-tools")).toBeVisible();
    await expect(call).toHaveAccessibleName(/^Tool: run\(.*sed -i.*25 passed/);
    await picture(window, "conversation");
});

test("a message opens the page where it stands in the conversation", async ({ window }) => {
    await window.checkpoints.row("I forgot the imports", 2).click();
    const page = new ConversationPage(window.page);
    await expect(page.row(27)).toBeInViewport();
    await expect(page.row(27)).toContainText("I forgot the imports at the top of the test file.");
    await window.closeEditors();
});

test("selection and expansion stay where they are while the session grows", async ({ window, store }) => {
    const checkpoint = window.checkpoints.row(IMPORTS, 1);
    await checkpoint.locator(".monaco-icon-label").first().click();
    await window.checkpoints.expand(checkpoint);
    await expect(checkpoint).toHaveAttribute("aria-expanded", "true");
    await window.ask("createCheckpoint", "Name; it may be empty", "while reading");
    await expect(window.checkpoints.row("while reading", 1)).toBeVisible();
    await expect(checkpoint).toHaveAttribute("aria-expanded", "true");
    await expect(checkpoint).toHaveAttribute("aria-selected", "true");
    expect(store.checkpoints("newest")).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
});

test("a checkpoint is compared with the present in the page", async ({ window }) => {
    const page = new ConversationPage(window.page);
    await window.compare(window.checkpoints.row(IMPORTS, 1), "Present", page.over);
    await expect(page.side("added")).toContainText("25 passed");
    await expect(page.side("removed").locator("article")).toHaveCount(0);
    await expect(page.over).toContainText("The same in both: 27 messages.");
    await picture(window, "compare");
    await window.closeEditors();
});

test("the keyboard is enough to choose a checkpoint, to restore to before it, and to undo that", async ({ window, store }) => {
    const before = store.log("newest");
    await patiently(async () => {
        for (const key of ["Home", "Enter", "Delete"]) await window.checkpoints.root.press(key, { timeout: MOMENT });
        await window.notifications.saying(/Restored to before “while reading”/).waitFor({ timeout: WHILE });
    });
    await expect(window.checkpoints.row("while reading", 1)).toHaveCount(0);
    await window.checkpoints.root.press("Control+z");
    await expect(window.checkpoints.row("while reading", 1)).toBeVisible();
    await expect.poll(() => store.log("newest")).toBe(before);
});

test("every row has a name for screen readers", async ({ window }) => {
    const names = await window.checkpoints.rows.evaluateAll((rows) => rows.map((row) => row.getAttribute("aria-label")));
    expect(names.length).toBeGreaterThan(6);
    for (const name of names) expect(name).toMatch(/\S/);
    expect(names.filter((name) => /^Checkpoint \d+: /.test(name ?? "")).length).toBeGreaterThan(5);
});
