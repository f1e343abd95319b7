import { expect, picture, sample, test } from "../support/test";
import { ConversationPage } from "../window/conversation";
import type { Pipeline } from "../support/store";
import { pathToFileURL } from "node:url";

test.describe.configure({ mode: "serial" });
test.use({ setup: { viewport: { width: 1680, height: 950 } } });

// An agent in another process owns the session; the page follows what it does.
let agent: Pipeline;
let page: ConversationPage;

test.beforeAll(async ({ workbench, store, window }) => {
    agent = store.pipeline();
    await agent.call("initialize", { clientInfo: { name: "agent" } });
    const workspace = pathToFileURL(workbench.folder).href;
    await agent.replay("live", sample(), { title: "Shares that add up", workspace });
    await workbench.open();
    await window.show();
    page = new ConversationPage(window.page);
});

test.afterAll(async () => {
    await agent.close();
});

test("a click on a session shows its conversation, at the newest message", async ({ window }) => {
    await window.sessions.row("Shares that add up").first().click();
    await page.shows("Shares that add up");
    await expect(page.feed.locator("article").last()).toBeVisible();
    await window.page.screenshot({ path: "/tmp/cpage-1.png" });
    await picture(window, "page");
});
