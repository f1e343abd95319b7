import { OURS, VSIX, expect, picture, sample, test, IMPORTS } from "../support/test";
import { pathToFileURL } from "node:url";

test.use({ setup: { extensions: [VSIX], settings: OURS, locale: "zh-CN" } });

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
    expect(said).not.toMatch(/[A-Za-z]{4,} [A-Za-z]{2,}/); // no sentence was left in English
    await window.dialog.press("取消");
    expect(store.timelines("zhongwen")).toEqual([]);
});
