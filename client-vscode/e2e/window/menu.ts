/** Menus of the workbench. */
import type { Locator, Page } from "@playwright/test";

/** The entry of that title; beside it may stand a key. */
export function entry(page: Page, name: string): Locator {
    const title = page.locator(".action-label").getByText(name, { exact: true });
    return page.locator(".monaco-menu").getByRole("menuitem").filter({ has: title });
}

/** Choose an entry of the menu that is open. The workbench drops mouse-up events for a moment after a menu is drawn. */
export async function choose(page: Page, name: string): Promise<void> {
    const item = entry(page, name);
    await item.waitFor();
    for (let attempt = 0; attempt < 20; attempt += 1) {
        await page.waitForTimeout(150);
        await item.click({ timeout: 2_000 }).catch(() => undefined);
        const closed = item.waitFor({ state: "detached", timeout: 500 });
        if (await closed.then(() => true, () => false)) return;
    }
    throw new Error(`the menu stayed open over "${name}"`);
}
