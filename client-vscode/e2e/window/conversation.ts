/** The conversation's page: a document within two frames of the workbench. */
import { type FrameLocator, type Locator, type Page, expect } from "@playwright/test";

export class ConversationPage {
    constructor(private readonly page: Page) {}

    /** The frame of the newest page. */
    get frame(): FrameLocator {
        return this.page.frameLocator("iframe.webview.ready").last().frameLocator("iframe#active-frame");
    }

    get feed(): Locator {
        return this.frame.getByRole("feed");
    }

    get title(): Locator {
        return this.frame.getByRole("heading", { level: 1 });
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
        await this.row(index).locator(".row-head").hover();
        await this.row(index).locator(".more").last().click();
        await this.frame.getByRole("menuitem", { name: entry, exact: true }).click();
    }

    async shows(title: string | RegExp): Promise<void> {
        await expect(this.title).toHaveText(title);
    }
}
