import { OURS, VSIX, expect, picture, sample, test, IMPORTS } from "../support/test";
import { ConversationPage } from "../window/conversation";
import { pathToFileURL } from "node:url";

test.use({ setup: { extensions: [VSIX], settings: OURS, locale: "zh-CN" } });
test.describe.configure({ mode: "serial" });

/** Two English words, one after the other. */
const ENGLISH = /[A-Za-z]{4,} [A-Za-z]{2,}/;

test("in a Chinese window everything of Timeleap is Chinese", async ({ workbench, window, store }) => {
    const workspace = pathToFileURL(workbench.folder).href;
    await store.replay("zhongwen", sample(), { title: "分账单", workspace });
    await workbench.open();
    await window.show();
    const row = window.checkpoints.row(IMPORTS, 1);
    await expect(row).toHaveAccessibleName(/条消息/);
    await window.checkpoints.expand(row);
    await expect(window.checkpoints.row("sed -i", 2)).toBeVisible();
    await picture(window, "checkpoints-zh");
    await window.checkpoints.command(row, window.texts.command("restoreWithOptions"), window.dialog.root);
    await picture(window, "revert-zh");
    const said = (await window.dialog.root.innerText()).replaceAll(/sed -i[^”"]*/g, "");
    expect(said).toMatch(/\p{Script=Han}/u);
    expect(said).not.toMatch(ENGLISH); // no sentence was left in English
    await window.dialog.press("取消");
    expect(store.timelines("zhongwen")).toEqual([]);
});

test("the page and its buttons are Chinese, and so is what is said of a change and its button", async ({ window }) => {
    await window.run("openConversation");
    const page = new ConversationPage(window.page);
    await page.shows("分账单");
    await page.feed.press("Home");
    await expect(page.row(0)).toBeVisible();
    const buttons = await page.frame.getByRole("button").allInnerTexts();
    expect(buttons.filter((text) => ENGLISH.test(text) && !/split|tally|pytest|python/.test(text))).toEqual([]);
    await picture(window, "page-zh");
    await window.restore(window.checkpoints.row(IMPORTS, 1));
    const told = window.notifications.saying(/已恢复到/);
    await expect(told).toBeVisible();
    await picture(window, "restored-zh");
    await told.getByRole("button", { name: window.texts.command("undo"), exact: true }).click();
    await expect(window.checkpoints.row(IMPORTS, 1)).toBeVisible();
});
