/** The command palette, quick picks and input boxes: one widget for all three. */
import { type Locator, type Page, expect } from "@playwright/test";
import { MOMENT, WHILE, patiently } from "./patience";

export class Quick {
    readonly root: Locator;
    readonly input: Locator;
    readonly options: Locator;
    /** The input of the palette, when it is that. */
    private readonly commands: Locator;

    constructor(private readonly page: Page) {
        this.root = page.locator(".quick-input-widget");
        this.input = this.root.locator(".quick-input-box input");
        this.options = this.root.getByRole("option");
        this.commands = this.root.getByPlaceholder("Type the name of a command to run.");
    }

    /** Run a command from the palette by its full title, as in `Timeleap: New Session`. */
    async command(title: string): Promise<void> {
        await patiently(async () => {
            await this.palette(title);
            await this.options.filter({ hasText: title }).first().click({ timeout: MOMENT });
            await this.commands.waitFor({ state: "hidden", timeout: MOMENT });
        });
    }

    /** What the palette offers for `words`. */
    async offers(words: string): Promise<string[]> {
        await patiently(async () => {
            await this.palette(words);
            await expect(this.options.first()).toBeVisible({ timeout: MOMENT });
        });
        const found = await this.options.allInnerTexts();
        await this.close();
        return found;
    }

    /** Wait for a box that says `prompt` (the palette before it looks the same), type, confirm. */
    async answer(prompt: string | RegExp, text: string): Promise<void> {
        const box = this.saying(prompt);
        await box.waitFor();
        await patiently(async () => {
            if (!(await box.isVisible())) return;
            await this.input.fill(text, { timeout: MOMENT });
            await this.input.press("Enter", { timeout: MOMENT });
            await box.waitFor({ state: "hidden", timeout: MOMENT });
        });
    }

    /** Choose from a list that says `title`. */
    async choose(title: string | RegExp, option: string | RegExp): Promise<void> {
        await this.saying(title).waitFor({ timeout: WHILE });
        await patiently(() => this.pick(title, option, MOMENT));
    }

    /** Choose an option of a list that says `title`, where it is open; the option appears within `patience` milliseconds. */
    async pick(title: string | RegExp, option: string | RegExp, patience: number): Promise<void> {
        const list = this.saying(title);
        if (!(await list.isVisible())) return;
        if (typeof option === "string") await this.input.fill(option, { timeout: MOMENT }); // it may be far down
        await this.options.filter({ hasText: option }).first().click({ timeout: patience });
        await list.waitFor({ state: "hidden", timeout: MOMENT });
    }

    /** Type into a list that says `title` and looks for what is typed; choose what it finds. */
    async chooseFound(title: string | RegExp, words: string): Promise<void> {
        const list = this.saying(title);
        await list.waitFor({ timeout: WHILE });
        await this.input.fill(words, { timeout: MOMENT });
        await patiently(async () => {
            if (!(await list.isVisible())) return;
            await this.options.filter({ hasText: words }).first().click({ timeout: MOMENT });
            await list.waitFor({ state: "hidden", timeout: MOMENT });
        });
    }

    /** Press the button of the workbench's own file dialog once it proposes `file`. */
    async confirm(title: string, file: string, button = "OK"): Promise<void> {
        const dialog = this.saying(title);
        await dialog.waitFor();
        await patiently(async () => {
            if (!(await dialog.isVisible())) return;
            await expect(this.input).toHaveValue(file, { timeout: MOMENT });
            await dialog.getByRole("button", { name: button }).click({ timeout: MOMENT });
            await dialog.waitFor({ state: "hidden", timeout: MOMENT });
        });
    }

    async close(): Promise<void> {
        await patiently(async () => {
            if (await this.root.isVisible()) await this.input.press("Escape", { timeout: MOMENT });
            await this.root.waitFor({ state: "hidden", timeout: MOMENT });
        });
    }

    /** The widget, when it says `text`. */
    saying(text: string | RegExp): Locator {
        const placeholder = this.page.getByPlaceholder(text);
        return this.root.filter({ hasText: text }).or(this.root.filter({ has: placeholder }));
    }

    // A key that is pressed while a dialog or menu is still closing goes nowhere.
    private async palette(words: string): Promise<void> {
        if (await this.commands.isVisible()) await this.commands.press("Escape", { timeout: MOMENT }); // it lists what there was when it was opened
        await this.page.keyboard.press("F1");
        await this.commands.fill(`>${words}`, { timeout: MOMENT });
    }
}
