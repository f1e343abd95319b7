/** The modal dialog: what it says, and its buttons. */
import type { Locator, Page } from "@playwright/test";
import { MOMENT, patiently } from "./patience";

export class Dialog {
    readonly root: Locator;
    readonly message: Locator;
    readonly detail: Locator;

    constructor(page: Page) {
        this.root = page.locator(".monaco-dialog-box");
        this.message = this.root.locator(".dialog-message-text");
        this.detail = this.root.locator(".dialog-message-detail");
    }

    /** Press a button once there is a dialog with it, and wait until that dialog is gone; the next one may be there at once. */
    async press(button: string | RegExp): Promise<void> {
        const named = typeof button === "string" ? { name: button, exact: true } : { name: button };
        const pressed = this.root.getByRole("button", named);
        await pressed.waitFor();
        const asked = this.root.filter({ has: this.root.page().getByText(await this.message.innerText(), { exact: true }) });
        await patiently(async () => {
            if ((await asked.count()) === 0) return;
            await pressed.click({ timeout: MOMENT });
            await asked.waitFor({ state: "detached", timeout: MOMENT });
        });
    }

    /** Put it away without an answer. */
    async dismiss(): Promise<void> {
        await this.root.waitFor();
        await patiently(async () => {
            if ((await this.root.count()) === 0) return;
            await this.root.press("Escape", { timeout: MOMENT });
            await this.root.waitFor({ state: "detached", timeout: MOMENT });
        });
    }
}
