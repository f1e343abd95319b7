/** The modal dialog: what it says, and its buttons. */
import type { Locator, Page } from "@playwright/test";

export class Dialog {
    readonly root: Locator;
    readonly message: Locator;
    readonly detail: Locator;

    constructor(page: Page) {
        this.root = page.locator(".monaco-dialog-box");
        this.message = this.root.locator(".dialog-message-text");
        this.detail = this.root.locator(".dialog-message-detail");
    }

    /** Press a button, and wait until the dialog is gone. */
    async press(button: string | RegExp): Promise<void> {
        const named = typeof button === "string" ? { name: button, exact: true } : { name: button };
        await this.root.getByRole("button", named).click();
        await this.root.waitFor({ state: "detached" });
    }
}
