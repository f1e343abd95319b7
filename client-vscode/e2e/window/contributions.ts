/** What the manifest contributes, pressed where a person finds it, and what is said then. */
import { type Locator, type Page, expect } from "@playwright/test";
import { entry, menu, press } from "./menu";
import { MOMENT, WHILE, patiently } from "./patience";

/** Milliseconds in which a command shows what it does; most show it at once, and some show nothing. */
const EFFECT = 1_200;

export class Contributions {
    /** What was said that nobody should be told who has only pressed a button. */
    readonly troubles: string[] = [];
    readonly pressed: string[] = [];

    constructor(private readonly page: Page) {}

    /** Press a button of the view's title, or of the menu behind its dots. False: it is not there now. */
    async title(title: string): Promise<boolean> {
        await this.putAway();
        const header = this.page.locator(".part.sidebar .composite.title").first();
        await header.hover({ timeout: WHILE });
        const button = header.getByRole("button", { name: title, exact: true }).or(header.locator(`.action-label[aria-label="${title}"]`)).first();
        if (await button.isVisible()) {
            if ((await button.getAttribute("aria-disabled")) === "true") return false;
            await button.click({ timeout: MOMENT });
        } else {
            let pressed = false as boolean;
            await patiently(async () => {
                if (!(await menu(this.page).isVisible())) {
                    await this.putAway(); // what a command before has shown only now
                    await header.hover({ timeout: MOMENT });
                    await header.locator(".codicon-toolbar-more").click({ timeout: MOMENT });
                    await menu(this.page).waitFor({ timeout: MOMENT });
                }
                pressed = await this.pressEntry(title); // a view that is drawn anew closes the menu
            });
            if (!pressed) return false;
        }
        return this.done(`title: ${title}`);
    }

    /** The entries of a row's menu that can be pressed. */
    async entries(row: Locator): Promise<string[]> {
        await this.putAway();
        await this.openMenu(row);
        const items = menu(this.page).locator('[role=menuitem]:not([aria-disabled="true"]) .action-label');
        const found = (await items.allInnerTexts()).filter((text) => text.trim() !== "");
        await this.page.keyboard.press("Escape");
        await menu(this.page).waitFor({ state: "detached" });
        return [...new Set(found)];
    }

    /** Press an entry of a row's menu. False: it is not there now. */
    async entry(row: Locator, title: string): Promise<boolean> {
        await this.putAway();
        let pressed = false as boolean;
        await patiently(async () => {
            await this.openMenu(row); // a view that is drawn anew closes it
            pressed = await this.pressEntry(title);
        });
        return pressed && this.done(`row: ${title}`);
    }

    private async openMenu(row: Locator): Promise<void> {
        await patiently(async () => {
            if (await menu(this.page).isVisible()) return;
            await this.putAway();
            await this.page.mouse.move(1_400, 12); // a tooltip of the row above may be in the way
            await this.page.locator(".monaco-hover:visible").waitFor({ state: "detached", timeout: MOMENT });
            await row.click({ button: "right", timeout: MOMENT });
            await menu(this.page).waitFor({ timeout: MOMENT });
        });
    }

    private async pressEntry(title: string): Promise<boolean> {
        const found = entry(this.page, title).first();
        if (!(await found.isVisible()) || (await found.getAttribute("aria-disabled")) === "true") {
            await this.page.keyboard.press("Escape");
            await menu(this.page).waitFor({ state: "detached" });
            return false;
        }
        await press(found);
        return true;
    }

    /** Wait for what the command shows, note what should not have been said, and put everything away. */
    private async done(what: string): Promise<true> {
        this.pressed.push(what);
        const shows = this.page.locator(".monaco-dialog-box, .quick-input-widget:visible, .notification-list-item").first();
        await shows.waitFor({ timeout: EFFECT }).catch(() => undefined);
        for (const said of await this.page.locator(".notification-list-item").all()) {
            const text = (await said.innerText().catch(() => "")).replaceAll("\n", " ");
            const wrong = (await said.locator(".codicon-error").count().catch(() => 0)) > 0 || text.includes("changed meanwhile");
            if (wrong && !this.troubles.some((one) => one.endsWith(text))) this.troubles.push(`${what}: ${text}`);
        }
        await this.putAway();
        return true;
    }

    private async putAway(): Promise<void> {
        await patiently(async () => {
            for (const open of [".monaco-dialog-box", ".monaco-modal-editor-block", ".quick-input-widget:visible", ".monaco-menu"]) {
                if (await this.page.locator(open).first().isVisible()) await this.page.keyboard.press("Escape");
                await expect(this.page.locator(open)).toHaveCount(0, { timeout: 500 });
            }
        });
    }
}
