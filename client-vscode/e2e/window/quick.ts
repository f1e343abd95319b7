/** The command palette, quick picks and input boxes: one widget for all three. */
import { type Locator, type Page, expect } from "@playwright/test";

export class Quick {
    readonly root: Locator;
    readonly input: Locator;
    readonly options: Locator;

    constructor(private readonly page: Page) {
        this.root = page.locator(".quick-input-widget");
        this.input = this.root.locator(".quick-input-box input");
        this.options = this.root.getByRole("option");
    }

    /** Run a command from the palette by its full title, as in `Timeleap: New Session`. */
    async command(title: string): Promise<void> {
        await this.palette(title);
        await this.options.filter({ hasText: title }).first().click();
    }

    /** What the palette offers for `words`. */
    async offers(words: string): Promise<string[]> {
        await this.palette(words);
        await expect(this.options.first()).toBeVisible();
        const found = await this.options.allInnerTexts();
        await this.page.keyboard.press("Escape");
        return found;
    }

    // A key that is pressed while a dialog or menu is still closing goes nowhere.
    private async palette(words: string): Promise<void> {
        await expect(async () => {
            await this.page.keyboard.press("F1");
            await this.input.fill(`>${words}`, { timeout: 1_000 });
        }).toPass({ timeout: 20_000 });
    }

    /** Wait for an input box that says `prompt` (the palette before it looks the same), type, confirm. */
    async answer(prompt: string | RegExp, text: string): Promise<void> {
        await this.root.filter({ hasText: prompt }).waitFor();
        await this.input.fill(text);
        await this.page.keyboard.press("Enter");
    }

    /** Press OK in the workbench's own file dialog once it proposes `file`. */
    async confirm(title: string, file: string): Promise<void> {
        const dialog = this.root.filter({ hasText: title });
        await dialog.waitFor();
        await expect(this.input).toHaveValue(file);
        await dialog.getByRole("button", { name: "OK" }).click();
    }

    async pick(option: string | RegExp): Promise<void> {
        await this.options.filter({ hasText: option }).first().click();
    }
}
