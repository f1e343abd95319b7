import { OURS, WITH_OTHERS, expect, picture, sample, test, IMPORTS } from "../support/test";
import type { Workbench } from "../support/workbench";
import type { Store } from "../support/store";
import type { Window } from "../window/window";
import { ConversationPage } from "../window/conversation";
import { until } from "../support/process";
import { MOMENT, WHILE, patiently } from "../window/patience";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

test.use({ setup: WITH_OTHERS });

const ANSWER =
    "Done with tests/test_split.py green: split_bill in tally/split.py and to_cents in tally/money.py count in whole cents, no two shares differ by more than " +
    "one cent, the signature is unchanged. Next: show what 100.00 split seven ways is now.";
const BEGINNING = "Done with tests/test_split.py green";
const FOCUS = "the rounding of shares";
const ASKS = "What should the summary pay attention to";
const MODEL = { ...OURS, "standInModel.answer": ANSWER };

let number = 0;
let session = "";

test.beforeAll(async ({ workbench }) => {
    await workbench.open();
});

test.beforeEach(async ({ workbench, window, store }) => {
    number += 1;
    session = `summarised-${String(number)}`;
    const title = `To be summarised (${String(number)})`;
    await store.replay(session, sample(), { title, workspace: pathToFileURL(workbench.folder).href });
    await window.show();
    await window.openSession(title);
    await expect(window.checkpoints.row(IMPORTS, 1)).toBeVisible();
    rmSync(notes(workbench), { force: true });
});

test.afterAll(({ workbench }) => {
    workbench.configure(OURS);
});

/** Where the model notes what it was asked. */
function notes(workbench: Workbench): string {
    return join(workbench.scratch, "user/User/globalStorage/timeleap-tests.model/asked.jsonl");
}

/** What the model was asked, and what it did about it; `cancelled`: it heard that nobody wants to know any more. */
function asked(workbench: Workbench): { prompt?: string; thinking?: true; cancelled?: true }[] {
    const lines = existsSync(notes(workbench)) ? readFileSync(notes(workbench), "utf8").trimEnd().split("\n") : [];
    return lines.map((line) => JSON.parse(line) as ReturnType<typeof asked>[number]);
}

/** Have a compaction proposed, again until it is `so`: settings arrive a little after they are written. */
async function propose(window: Window, so: () => Promise<void>): Promise<void> {
    await patiently(async () => {
        await window.ask("compact", ASKS, FOCUS);
        await window.dialog.root.waitFor({ timeout: WHILE });
        await so().catch(async (error: unknown) => {
            await window.dialog.dismiss();
            throw error;
        });
    });
}

/** The text that stands for what was compacted away. */
function summary(store: Store): string {
    const [first] = store.messages(session);
    return JSON.stringify(first?.content);
}

test("a language model of the editor's chat writes the summary, which is shown before it is used", async ({ workbench, window, store }) => {
    const before = store.log(session);
    workbench.configure(MODEL);
    await propose(window, () => expect(window.dialog.detail).toContainText(ANSWER, { timeout: MOMENT }));
    expect(asked(workbench).at(-1)?.prompt).toContain(FOCUS);
    expect(asked(workbench).at(-1)?.prompt).toContain("That is not fair when there are many guests"); // of the conversation
    expect(store.log(session)).toBe(before);
    await expect(window.notifications.saying("Summarising…")).toHaveCount(0);
    await picture(window, "model");
    await window.dialog.press("What Is Kept");
    const { over } = new ConversationPage(window.page);
    await expect(over).toContainText("What Is Kept");
    await expect(over).toContainText(BEGINNING);
    expect(store.log(session)).toBe(before);
    await window.notifications.press(/become one summary/, "Compact");
    await expect(window.checkpoints.row("compacted", 1)).toBeVisible();
    expect(summary(store)).toContain(ANSWER);
    await window.closeEditors();
    await window.notifications.press(/Compacted: /, "Undo");
    await expect.poll(() => store.log(session)).toBe(before);
});

test("while the model thinks that is seen, and can be given up: then nothing is changed", async ({ workbench, window, store }) => {
    const before = store.log(session);
    workbench.configure({ ...MODEL, "standInModel.does": "think" });
    const thinks = (): boolean => asked(workbench).some(({ thinking }) => thinking);
    await patiently(async () => {
        if (await window.dialog.root.isVisible()) await window.dialog.dismiss(); // the setting had not arrived
        if (!thinks() && !(await window.notifications.saying("Summarising…").isVisible())) await window.ask("compact", ASKS, FOCUS);
        await until("the model thinks, or has answered", async () => thinks() || (await window.dialog.root.isVisible()), WHILE);
        expect(thinks()).toBe(true);
    });
    await window.notifications.press("Summarising…", "Cancel");
    await expect.poll(() => asked(workbench)).toContainEqual({ cancelled: true });
    await expect(window.notifications.saying("Summarising…")).toHaveCount(0);
    await expect(window.dialog.root).toHaveCount(0);
    expect(store.log(session)).toBe(before);
});

for (const [how, settings, calls] of [
    ["there is no model", OURS, 0],
    ["the model fails in the middle of its answer", { ...MODEL, "standInModel.does": "fail" }, 1],
    ["the settings say that no model shall be asked", { ...MODEL, "timeleap.useLanguageModel": false }, 0],
] as const) {
    test(`where ${how} the server's own summariser writes the summary`, async ({ workbench, window, store }) => {
        workbench.configure(settings);
        await propose(window, async () => {
            const since = asked(workbench).length;
            rmSync(notes(workbench), { force: true });
            expect(since).toBe(calls);
            await expect(window.dialog.detail).not.toContainText(BEGINNING, { timeout: MOMENT });
        });
        await window.dialog.press("Compact");
        await expect(window.checkpoints.row("compacted", 1)).toBeVisible();
        expect(summary(store)).toContain("With 100.00 split three ways");
        expect(summary(store)).not.toContain(BEGINNING);
    });
}
