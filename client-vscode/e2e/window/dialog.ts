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

    /** Press a button once there is a dialog, and wait until the dialog is gone. */
    async press(button: string | RegExp): Promise<void> {
        const named = typeof button === "string" ? { name: button, exact: true } : { name: button };
        await this.root.waitFor();
        await patiently(async () => {
            if ((await this.root.count()) === 0) return;
            await this.root.getByRole("button", named).click({ timeout: MOMENT });
            await this.root.waitFor({ state: "detached", timeout: MOMENT });
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
