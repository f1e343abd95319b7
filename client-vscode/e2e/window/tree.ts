/** A tree of the side bar: its rows as a person sees them, expanded and collapsed by clicks, used by their menus. */
import { type Locator, type Page, expect } from "@playwright/test";
import { entry, menu, press } from "./menu";
import { MOMENT, WHILE, patiently } from "./patience";

const CHECKPOINT = ':is([aria-label^="Checkpoint "], [aria-label^="检查点 "])';
const LEVELS = { 1: `[role=treeitem]:is([aria-level="1"], ${CHECKPOINT})`, 2: `[role=treeitem]:not([aria-level="1"], ${CHECKPOINT})` } as const;

export class Tree {
    readonly root: Locator;
    readonly rows: Locator;

    constructor(
        private readonly page: Page,
    ) {
        this.root = page.locator(".part.sidebar .customview-tree").getByRole("tree");
        this.rows = this.root.getByRole("treeitem");
    }

    /** Rows whose text holds `text`. Level 1: of the log, so checkpoints wherever they stand, and what is at the top; level 2: what is in those. */
    row(text: string | RegExp, level?: 1 | 2): Locator {
        const rows = level === undefined ? this.rows : this.root.locator(LEVELS[level]);
        return rows.filter({ hasText: text });
    }

    /** Those of checkpoints alone: what was set aside is named by its messages, too. */
    checkpoint(text: string | RegExp): Locator {
        return this.root.locator(`[role=treeitem]${CHECKPOINT}`).filter({ hasText: text });
    }

    /** The rows in which a number of calls failed: their badge says so, in words to those who hear it. */
    failing(count: number): Locator {
        return this.root.getByRole("treeitem", { name: new RegExp(`, ${String(count)} failed`) });
    }

    /** The rows of one level that are painted now, as text, from the top. */
    async texts(level: 1 | 2 = 1): Promise<string[]> {
        const rows = this.root.locator(LEVELS[level]);
        const found = await rows.evaluateAll((all) =>
            all.map((row) => ({
                top: row.getBoundingClientRect().top,
                text: (row.querySelector(".monaco-icon-label")?.textContent ?? "").replaceAll("\u00a0", " "),
            })),
        );
        return found.sort((one, other) => one.top - other.top).map(({ text }) => text);
    }

    /** The rows that are there as they are painted, from the top: what the editor cuts off at the right is left out. */
    async painted(): Promise<string[]> {
        const found = await this.rows.evaluateAll((all) =>
            all.map((row) => {
                const label = row.querySelector(".monaco-icon-label-container") ?? row;
                const top = row.getBoundingClientRect().top;
                if (label.scrollWidth <= label.clientWidth) return { top, text: label.textContent };
                const end = label.getBoundingClientRect().right - parseFloat(getComputedStyle(label).fontSize); // an ellipsis
                const texts = document.createTreeWalker(label, NodeFilter.SHOW_TEXT);
                let seen = "";
                for (let node = texts.nextNode(); node; node = texts.nextNode()) {
                    const range = document.createRange();
                    for (let at = 0; at < (node.nodeValue ?? "").length; at += 1) {
                        range.setStart(node, at);
                        range.setEnd(node, at + 1);
                        if (range.getBoundingClientRect().right > end) return { top, text: `${seen}…` };
                        seen += node.nodeValue?.charAt(at) ?? "";
                    }
                }
                return { top, text: seen };
            }),
        );
        return found.sort((one, other) => one.top - other.top).map(({ text }) => text.replaceAll("\u00a0", " "));
    }

    /** Open a row; it may be about to get its first child. */
    async expand(row: Locator): Promise<void> {
        await this.turn(row, "true");
    }

    async collapse(row: Locator): Promise<void> {
        await this.turn(row, "false");
    }

    /**
     * Choose an entry of the row's context menu; `effect` is what shows that it was heard. A command that lost its row, because
     * the view was drawn anew in that moment, does nothing and says so: then it is chosen again.
     */
    async command(row: Locator, title: string, effect: Locator): Promise<void> {
        await patiently(async () => {
            if (await effect.isVisible()) {
                await this.closeMenu(); // it was opened again before the effect could be seen
                return;
            }
            // Not by `openMenu`: once the command was heard the row, or the entry in its menu, may be gone for good, and then
            // only the effect is to be waited for.
            await press(await this.tryMenu(row, title));
            await effect.waitFor({ timeout: WHILE });
        });
    }

    /** Open the row's context menu and return an entry of it. A refresh closes a menu that has just opened. */
    async openMenu(row: Locator, title: string): Promise<Locator> {
        const found = entry(this.page, title);
        await patiently(async () => {
            await this.tryMenu(row, title);
        });
        return found;
    }

    /** The same, once. */
    private async tryMenu(row: Locator, title: string): Promise<Locator> {
        const found = entry(this.page, title);
        if (await found.isVisible()) return found;
        if (await menu(this.page).isVisible()) await this.page.keyboard.press("Escape");
        await row.click({ button: "right", timeout: MOMENT });
        await found.waitFor({ timeout: MOMENT });
        return found;
    }

    /** Put the open menu away. */
    async closeMenu(): Promise<void> {
        await patiently(async () => {
            if (await menu(this.page).isVisible()) await this.page.keyboard.press("Escape");
            await menu(this.page).waitFor({ state: "detached", timeout: MOMENT });
        });
    }

    /** Press End, as often as it takes until the last row is that one. */
    async toTheEnd(row: Locator): Promise<void> {
        await patiently(async () => {
            await this.root.press("End", { timeout: MOMENT });
            await expect(row).toBeVisible({ timeout: MOMENT });
        });
    }

    /** The moment (of `Date.now()`) at which a row with that text is first painted; to be called before it is written. */
    async paintedAt(text: string): Promise<{ at: Promise<number> }> {
        const name = `painted ${text}`;
        await this.root.evaluate((root, [row, key]) => {
            (window as unknown as Record<string, Promise<number>>)[key] = new Promise((resolve) => {
                const look = (): void => {
                    if (root.textContent.replaceAll("\u00a0", " ").includes(row)) resolve(Date.now());
                    else requestAnimationFrame(look);
                };
                look();
            });
        }, [text, name] as const);
        return { at: this.page.evaluate((key) => (window as unknown as Record<string, Promise<number>>)[key], name) as Promise<number> };
    }

    // A refresh may draw the row anew between the look and the click.
    private async turn(row: Locator, expanded: "true" | "false"): Promise<void> {
        await patiently(async () => {
            if ((await row.getAttribute("aria-expanded", { timeout: MOMENT })) !== expanded) {
                await row.locator(".monaco-tl-twistie.collapsible").click({ timeout: MOMENT });
            }
            await expect(row).toHaveAttribute("aria-expanded", expanded, { timeout: MOMENT });
        });
    }
}
