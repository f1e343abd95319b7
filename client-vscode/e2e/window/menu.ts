/** Menus of the workbench. */
import type { Locator, Page } from "@playwright/test";
import { MOMENT } from "./patience";

/** The menu that is open. */
export function menu(page: Page): Locator {
    return page.locator(".monaco-menu").first();
}

/** The entry of that title; beside it may stand a key. */
export function entry(page: Page, title: string): Locator {
    const label = page.locator(".action-label").getByText(title, { exact: true });
    return menu(page).getByRole("menuitem").filter({ has: label });
}

/**
 * Press an entry of the open menu. The workbench drops mouse-up events for a moment after a menu is drawn, so the entry is
 * pressed until the menu closes. An error: the menu went away by itself, as it does when what is below it is drawn anew.
 */
export async function press(item: Locator): Promise<void> {
    for (let pressed = false; !pressed; ) {
        await item.click({ timeout: MOMENT });
        pressed = await item.waitFor({ state: "detached", timeout: 300 }).then(
            () => true,
            () => false,
        );
    }
}
