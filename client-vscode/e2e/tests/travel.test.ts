import { ConversationPage } from "../window/conversation";
import { expect, picture, sample, test, SECOND_BUG } from "../support/test";
import { MOMENT, patiently } from "../window/patience";
import { pathToFileURL } from "node:url";

let number = 0;
let session = "";
let last = "";

test.beforeAll(async ({ workbench }) => {
    await workbench.open();
});

test.beforeEach(async ({ window, store, workbench }) => {
    const workspace = pathToFileURL(workbench.folder).href;
    number += 1;
    session = `bill-${String(number)}`;
    const title = `Split the bill (${String(number)})`;
    // A number of its own, so that no row of the session before is taken for one of this.
    last = `sed -i${String(number)} '1i import`;
    await store.replay(session, sample().replace("sed -i '1i import", last), { title, workspace });
    await window.show();
    await window.openSession(title);
    await expect(window.checkpoints.row(last, 1)).toBeVisible();
});

test("Restore is done at once, says what went, and is undone by one press", async ({ window, store }) => {
    const before = store.log(session);
    await window.restore(window.checkpoints.row(SECOND_BUG, 1));
    await expect(window.dialog.root).toHaveCount(0);
    await window.notifications.look(/Restored to before .*: 14 messages, 5 checkpoints, .* set aside\./);
    await expect(window.checkpoints.row(SECOND_BUG, 1)).toHaveCount(0);
    expect(store.checkpoints(session)).toEqual([0, 1, 2, 3, 4]);
    expect(store.timelines(session)).toEqual(["context_1.jsonl"]);
    expect(store.log(session, "context_1.jsonl")).toBe(before);
    await picture(window, "undo");

    await window.notifications.press(/Restored to before /, "Undo");
    await expect(window.checkpoints.row(last, 1)).toBeVisible();
    await expect.poll(() => store.log(session)).toBe(before);
    expect(store.timelines(session)).toEqual(["context_1.jsonl", "context_2.jsonl"]);
});

test("with options it says first what would go; put away, nothing has changed", async ({ window, store }) => {
    const before = store.log(session);
    await window.checkpoints.command(window.checkpoints.row(SECOND_BUG, 1), window.texts.command("restoreWithOptions"), window.dialog.root);
    await expect(window.dialog.root).toContainText("14 messages");
    await expect(window.dialog.root).toContainText("5 checkpoints");
    await picture(window, "revert");
    await window.dialog.dismiss();
    await expect(window.checkpoints.row(last, 1)).toBeVisible();
    expect(store.log(session)).toBe(before);
    expect(store.timelines(session)).toEqual([]);
});

test("a timeline is looked into and restored", async ({ window, store }) => {
    const before = store.log(session);
    await window.restore(window.checkpoints.row(SECOND_BUG, 1));
    const timeline = window.checkpoints.row("Before a restore", 1);
    await expect(timeline).toContainText("14 messages: "); // what went, and not the past that is still there
    await patiently(async () => {
        await window.checkpoints.expand(timeline); // it folds up where it is drawn anew while it unfolds
        await expect(window.checkpoints.row(last, 1)).toBeVisible({ timeout: MOMENT });
    });
    await expect(window.checkpoints.row("Guests complain", 1)).toHaveCount(1);
    const page = new ConversationPage(window.page);
    await window.compare(timeline, "Present", page.over);
    await expect(page.side("removed")).toContainText("14.28");
    await window.closeEditors();
    await picture(window, "timelines");
    await window.clearNotifications();
    await window.checkpoints.command(timeline, window.texts.command("restoreTimeline"), window.notifications.saying("Restored: "));
    await expect(timeline).toHaveCount(0); // the present has all of it
    await expect(window.checkpoints.row(last, 1)).toBeVisible();
    await expect.poll(() => store.log(session)).toBe(before);
});

test("a fork takes the history up to a checkpoint into a session of its own", async ({ window, store }) => {
    const before = store.log(session);
    const sessions = store.sessions();
    await window.checkpoints.command(window.checkpoints.row(SECOND_BUG, 1), window.texts.command("fork"), window.quick.saying("Name; it may be empty"));
    await window.quick.answer("Name; it may be empty", "Another way");
    await expect.poll(() => store.sessions().length).toBe(sessions.length + 1);
    const fork = store.sessions().find((id) => !sessions.includes(id)) ?? "";
    await expect.poll(() => store.checkpoints(fork)).toEqual([0, 1, 2, 3, 4, 5]);
    expect(store.log(session)).toBe(before);
    await expect(window.checkpoints.row("Checkpoint #5", 1)).toBeVisible(); // what came after it, and named it, is not here
    await expect(window.checkpoints.row(last, 1)).toHaveCount(0);
});

test("compaction shows what it would do, takes a focus, and can be undone", async ({ window, store }) => {
    await window.clearNotifications();
    const before = store.log(session);
    await window.ask("compact", "What should the summary pay attention to", "the rounding of shares");
    await window.dialog.root.waitFor();
    await expect(window.notifications.saying("Summarising…")).toHaveCount(0);
    await picture(window, "compact");
    expect(store.log(session)).toBe(before);
    await window.dialog.press(/Compact/);
    await expect(window.checkpoints.row("compacted", 1)).toBeVisible();
    expect(store.messages(session)[0]?.content).toMatchObject([{ text: expect.stringContaining("compacted") }, {}]);
    expect(store.messages(session).length).toBeLessThan(32);
    await expect(window.checkpoints.row("Before a compaction", 1)).not.toContainText("messages"); // the one number is that of the server
    await window.notifications.press(/Compacted: /, "Undo");
    await expect(window.checkpoints.row(last, 1)).toBeVisible();
    await expect.poll(() => store.log(session)).toBe(before);
});

test("clearing keeps the system prompt, and what was there; undo brings it back, redo clears again", async ({ window, store }) => {
    const before = store.log(session);
    await window.manage(session, "Clear Conversation");
    await expect(window.checkpoints.row(last, 1)).toHaveCount(0);
    await expect.poll(() => store.records(session).map(({ role }) => role)).toEqual(["_system_prompt"]);
    expect(store.log(session, "context_1.jsonl")).toBe(before);
    await expect(window.checkpoints.row("Before clearing", 1)).toBeVisible();
    await window.run("undo");
    await expect(window.checkpoints.row(last, 1)).toBeVisible();
    await expect.poll(() => store.log(session)).toBe(before);
    await window.run("redo");
    await expect(window.checkpoints.row(last, 1)).toHaveCount(0);
    await expect.poll(() => store.records(session).map(({ role }) => role)).toEqual(["_system_prompt"]);
});

test("the page follows where the conversation goes back, and is brought back by a key; keys go to and fro, with one toast", async ({ window, store }) => {
    await window.clearNotifications();
    const before = store.log(session);
    const page = new ConversationPage(window.page);
    await window.checkpoints.row(last, 1).locator(".monaco-icon-label").click();
    await expect(page.row(27)).toBeInViewport();
    await window.restore(window.checkpoints.row(SECOND_BUG, 1));
    await expect(page.row(27)).toHaveCount(0);
    await page.frame.locator(".lane").nth(1).click(); // what was set aside stays readable
    await expect(page.feed).toContainText("25 passed in 0.09s");
    for (const name of [page.title, page.frame.locator(".lane-name").nth(1)]) {
        expect(await name.evaluate((text) => text.scrollWidth <= text.clientWidth)).toBe(true); // it is not cut
    }
    await picture(window, "set-aside");
    await page.tool("Show the Present").click();

    await window.checkpoints.root.press("Alt+ArrowLeft");
    await expect.poll(() => store.log(session)).toBe(before);
    await expect(window.checkpoints.row(last, 1)).toBeVisible();
    await window.checkpoints.root.press("Alt+ArrowRight");
    await expect(window.checkpoints.row(last, 1)).toHaveCount(0);
    await window.notifications.look(/Done again: /);
    expect(await window.page.locator(".notifications-toasts .notification-toast:visible").count()).toBeLessThan(2);
    await expect(window.page.locator(".part.statusbar").getByLabel("Undo: 1, Redo: 0").first()).toBeVisible();

    await window.checkpoints.root.press("Alt+ArrowLeft");
    await expect.poll(() => store.log(session)).toBe(before);
    await window.closeEditors();
});
