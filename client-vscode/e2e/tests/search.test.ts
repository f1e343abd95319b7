import { ConversationPage } from "../window/conversation";
import { expect, picture, sample, test } from "../support/test";
import { pathToFileURL } from "node:url";

test.describe.configure({ mode: "serial" });

test.beforeAll(async ({ workbench, store, window }) => {
    await store.replay("searched", sample(), { title: "Split and searched", workspace: pathToFileURL(workbench.folder).href });
    await workbench.open();
    await window.show();
    await window.openSession("Split and searched");
});

test("what is typed is searched for; the chosen message is shown in its conversation, with the words marked", async ({ window }) => {
    await window.run("search");
    const box = window.quick.saying("Search: Split and searched");
    await expect(box).toBeVisible();
    await window.quick.input.fill("FORGOT the imports");
    const hit = window.quick.options.filter({ hasText: "I forgot the imports" }).first();
    await expect(hit).toBeVisible();
    await picture(window, "search");
    await window.quick.input.press("Enter");
    const page = new ConversationPage(window.page);
    await page.shows("Split and searched");
    await expect(page.row(27)).toBeInViewport();
    const marked = await page.feed.evaluate(() => [...(CSS.highlights.get("found") ?? [])].map(String));
    expect(marked.map((text) => text.toLowerCase())).toContain("forgot the imports");
    await window.closeEditors();
});

test("a text that is pinned is in the list, and goes when it is chosen", async ({ window, store }) => {
    const pins = async (): Promise<string[]> => (await store.call<{ pins?: string[] }>("session/getState", { sessionId: "searched" })).pins ?? [];
    await window.closeEditors();
    await window.run("managePins");
    await window.quick.choose("Pins: Split and searched", "Pin another text");
    await window.quick.answer("Pin another text", "never round twice");
    await expect.poll(pins).toEqual(["never round twice"]);
    await window.run("managePins");
    await window.quick.choose("Pins: Split and searched", "never round twice");
    await expect.poll(pins).toEqual([]);
});
