/** Notifications with their buttons: in the corner as long as they are new, then behind the bell. */
import type { Locator, Page } from "@playwright/test";
import { MOMENT, WHILE, patiently } from "./patience";

export class Notifications {
    constructor(private readonly page: Page) {}

    private get bell(): Locator {
        return this.page.locator(".part.statusbar").locator("[id='status.notifications']");
    }

    /** The notification that says `text`; the newest of them. */
    saying(text: string | RegExp): Locator {
        const places = this.page.locator(".notifications-toasts.visible, .notifications-center.visible");
        return places.locator(".notification-list-item").filter({ hasText: text }).first();
    }

    /** Wait until a notification says `text`; it may have gone from the corner already, and is behind the bell then. */
    async look(text: string | RegExp): Promise<Locator> {
        const found = this.saying(text);
        await patiently(async () => {
            try {
                await found.waitFor({ timeout: WHILE });
            } catch (error) {
                await this.bell.click({ timeout: MOMENT });
                throw error;
            }
        });
        return found;
    }

    /** Press a button of the notification that says `text`. */
    async press(text: string | RegExp, button: string): Promise<void> {
        await patiently(async () => {
            const found = await this.look(text);
            await found.getByRole("button", { name: button, exact: true }).click({ timeout: MOMENT });
        });
    }
}
