/** Notifications in the corner, with their buttons. */
import type { Locator, Page } from "@playwright/test";

export class Notifications {
    constructor(private readonly page: Page) {}

    /** The notification that says `text`. */
    saying(text: string | RegExp): Locator {
        return this.page.locator(".notifications-toasts .notification-list-item").filter({ hasText: text });
    }

    async press(text: string | RegExp, button: string): Promise<void> {
        await this.saying(text).getByRole("button", { name: button, exact: true }).click();
    }
}
