/** A tree of the side bar: its rows as a person sees them, expanded and collapsed by clicks, used by their menus. */
import { type Locator, type Page, expect } from "@playwright/test";
import { choose, entry } from "./menu";

export class Tree {
    readonly root: Locator;
    readonly rows: Locator;

    constructor(
        private readonly page: Page,
        readonly name: string,
    ) {
        this.root = page.locator(".part.sidebar").getByRole("tree", { name, exact: true });
        this.rows = this.root.getByRole("treeitem");
    }

    /** Rows whose text holds `text`; those of a level of the tree, if one is given (1 is the outermost). */
    row(text: string | RegExp, level?: number): Locator {
        const rows = level === undefined ? this.rows : this.root.locator(`[role=treeitem][aria-level="${String(level)}"]`);
        return rows.filter({ hasText: text });
    }

    /** The rows of one level that are painted now, as text, from the top. */
    async texts(level = 1): Promise<string[]> {
        const rows = this.root.locator(`[role=treeitem][aria-level="${String(level)}"]`);
        const found = await rows.evaluateAll((all) =>
            all.map((row) => ({
                top: row.getBoundingClientRect().top,
                text: (row.querySelector(".monaco-icon-label")?.textContent ?? "").replaceAll("\u00a0", " "),
            })),
        );
        return found.sort((one, other) => one.top - other.top).map(({ text }) => text);
    }

    /** Open a row; it may be about to get its first child. */
    async expand(row: Locator): Promise<void> {
        await this.turn(row, "true");
    }

    async collapse(row: Locator): Promise<void> {
        await this.turn(row, "false");
    }

    /** Choose an entry of the row's context menu. */
    async command(row: Locator, title: string): Promise<void> {
        await this.openMenu(row, title);
        await choose(this.page, title);
    }

    /** Open the row's context menu and return an entry of it. A refresh closes a menu that has just opened. */
    async openMenu(row: Locator, title: string): Promise<Locator> {
        const found = entry(this.page, title);
        await expect(async () => {
            await row.click({ button: "right", timeout: 5_000 });
            await found.waitFor({ timeout: 2_000 });
        }).toPass({ timeout: 20_000 });
        return found;
    }

    /** Press a button of the view's own title bar. */
    async action(title: string): Promise<void> {
        const tree = this.page.getByRole("tree", { name: this.name, exact: true });
        const pane = this.page.locator(".part.sidebar .pane").filter({ has: tree });
        await pane.locator(".pane-header").hover();
        await pane.locator(".pane-header").getByRole("button", { name: title, exact: true }).click();
    }

    /** Open or close the view in its container, by its header. */
    async unfold(open = true): Promise<void> {
        const header = this.page.locator(".part.sidebar .pane-header").filter({ hasText: this.name });
        if ((await header.getAttribute("aria-expanded")) !== String(open)) await header.click();
    }

    // A refresh may draw the row anew between the look and the click.
    private async turn(row: Locator, expanded: "true" | "false"): Promise<void> {
        await expect(async () => {
            if ((await row.getAttribute("aria-expanded", { timeout: 2_000 })) !== expanded) {
                await row.locator(".monaco-tl-twistie.collapsible").click({ timeout: 2_000 });
            }
            await expect(row).toHaveAttribute("aria-expanded", expanded, { timeout: 1_000 });
        }).toPass({ timeout: 20_000 });
    }
}
