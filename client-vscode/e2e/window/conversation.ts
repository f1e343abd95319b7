/** The conversation's page: a document within two frames of the workbench. */
import { type FrameLocator, type Locator, type Page, expect } from "@playwright/test";
import { MOMENT, patiently } from "./patience";

export class ConversationPage {
    constructor(private readonly page: Page) {}

    /** The frame of the newest page. */
    get frame(): FrameLocator {
        return this.page.locator("iframe.webview.ready").last().contentFrame().frameLocator("iframe#active-frame");
    }

    get feed(): Locator {
        return this.frame.getByRole("feed");
    }

    get title(): Locator {
        return this.frame.getByRole("heading", { level: 1 });
    }

    /** What stands over the conversation: a comparison, or something else to read. */
    get over(): Locator {
        return this.frame.locator(".over");
    }

    /** A side of a comparison. */
    side(which: "removed" | "added"): Locator {
        return this.over.locator(`.side.${which}`);
    }

    row(index: number): Locator {
        return this.frame.locator(`article.row[data-index="${String(index)}"]`);
    }

    marker(id: number): Locator {
        return this.frame.locator(`[data-checkpoint="${String(id)}"]`);
    }

    tool(name: string): Locator {
        return this.frame.getByRole("button", { name, exact: true });
    }

    /** Chooses from the menu of a message. */
    async choose(index: number, entry: string): Promise<void> {
        await this.row(index).hover({ position: { x: 30, y: 10 } });
        await this.row(index).locator(".more").last().click();
        await this.frame.getByRole("menuitem", { name: entry, exact: true }).click();
    }

    /** Scrolls until a message is in sight; rows come and go meanwhile. */
    async reach(index: number): Promise<void> {
        await patiently(async () => {
            await this.feed.evaluate((feed, wanted) => {
                const row = feed.querySelector(`article[data-index="${String(wanted)}"]`);
                feed.scrollBy(0, row ? row.getBoundingClientRect().top - 100 : feed.clientHeight / 2);
            }, index);
            await expect(this.row(index)).toBeInViewport({ timeout: MOMENT });
        });
    }

    async shows(title: string | RegExp): Promise<void> {
        await expect(this.title).toHaveText(title);
    }
}
