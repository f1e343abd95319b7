import { WITH_OTHERS, expect, picture, test } from "../support/test";
import { MOMENT, WHILE, patiently } from "../window/patience";
import { writeFileSync } from "node:fs";
import { join } from "node:path";

test.use({ setup: WITH_OTHERS });

test("in a workspace that is on no disk the workbench leaves the extension out, and says why", async ({ workbench, window }) => {
    const workspace = join(workbench.scratch, "nowhere.code-workspace");
    writeFileSync(workspace, JSON.stringify({ folders: [{ name: "Nowhere", uri: "timeleap-nowhere:/" }] }));
    const file = window.page.locator(".part.sidebar").getByRole("treeitem", { name: "nowhere.txt" });
    await patiently(async () => {
        await workbench.open({ workspace }); // the workbench may look into the file before it can be read, and shows no folder then
        await expect(file).toBeVisible({ timeout: WHILE });
    });
    await expect(window.icon).toHaveCount(0);
    expect((await window.quick.offers("Timeleap: New Session")).join()).not.toContain("Timeleap");

    await window.quick.command("Extensions: Show Installed Extensions");
    const row = window.page.getByRole("listitem", { name: /^Timeleap,/ });
    await patiently(async () => {
        await row.click({ timeout: MOMENT });
        await expect(window.page.locator(".extension-editor")).toContainText(window.texts.of("capabilities.virtual"), { timeout: MOMENT });
    });
    await picture(window, "virtual");
    await window.closeEditors();

    await workbench.open(); // the folder on the disk
    await expect(window.icon).toBeVisible();
    expect((await window.quick.offers("Timeleap: New Session")).join()).toContain("Timeleap");
});
