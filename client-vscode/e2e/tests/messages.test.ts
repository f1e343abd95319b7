import { expect, picture, sample, test } from "../support/test";
import { ConversationPage } from "../window/conversation";
import { pathToFileURL } from "node:url";

test.describe.configure({ mode: "serial" });

let page: ConversationPage;

test.beforeAll(async ({ workbench, store, window }) => {
    const workspace = pathToFileURL(workbench.folder).href;
    await store.replay("chat", sample(), { title: "Pinned and noted", workspace });
    await workbench.open();
    await window.show();
    page = new ConversationPage(window.page);
    await window.openSession("Pinned and noted");
    await window.run("openConversation");
    await page.shows("Pinned and noted");
});

test("a message is pinned, so that no compaction loses it, and can be unpinned", async ({ window, store }) => {
    await page.choose(31, "Pin");
    await window.notifications.press(/Pinned\. No compaction of “Pinned and noted” loses it/, "Pins…");
    await window.quick.choose("Pins: Pinned and noted", "Done. split_bill works in whole cents");
    await window.notifications.look(/No longer pinned: Done\. split_bill/);
    expect(store.messages("chat")).toHaveLength(32);
});

test("a note to a message waits for the checkpoint before it, and is delivered there", async ({ window, store }) => {
    await page.choose(31, "Write a Note to Here…");
    await window.quick.answer(/It arrives there when it is delivered/, "Round with divmod at once.");
    await window.notifications.press(/not delivered yet/, "Deliver");
    await expect(page.frame.locator("article.row", { hasText: "Round with divmod at once." })).toBeVisible();
    await picture(window, "page-note");
    await page.tool("Undo").click();
    await expect(page.row(31)).toContainText("Done. split_bill works in whole cents");
    await expect.poll(() => store.messages("chat").length).toBe(32);
});

test("a fork from a message ends with it; the session that it came from stays as it was", async ({ window, store }) => {
    const before = store.log("chat");
    const sessions = store.sessions();
    await page.choose(31, "Fork from Here…");
    await window.quick.answer("Name; it may be empty", "Another way");
    await window.openSession("Another way");
    await window.run("openConversation");
    await page.shows("Another way");
    await expect(page.row(31)).toContainText("Done. split_bill works in whole cents");
    const fork = store.sessions().find((id) => !sessions.includes(id)) ?? "";
    expect(store.messages(fork)).toEqual(store.messages("chat"));
    expect(store.log("chat")).toBe(before);
    await picture(window, "page-fork");
});
