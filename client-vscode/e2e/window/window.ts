/** A window of the workbench with Timeleap in it, as a person finds their way around. */
import { type Locator, type Page, expect } from "@playwright/test";
import { Dialog } from "./dialog";
import { Notifications } from "./notifications";
import { MOMENT, WHILE, patiently } from "./patience";
import { Quick } from "./quick";
import { Tree } from "./tree";
import type { Texts } from "../support/texts";

export class Window {
    readonly dialog: Dialog;
    readonly notifications: Notifications;
    readonly quick: Quick;
    readonly checkpoints: Tree;

    constructor(
        readonly page: Page,
        readonly texts: Texts,
    ) {
        this.dialog = new Dialog(page);
        this.notifications = new Notifications(page);
        this.quick = new Quick(page);
        this.checkpoints = new Tree(page);
    }

    /** The icon in the activity bar. */
    get icon(): Locator {
        return this.page.locator(".part.activitybar").getByRole("tab", { name: "Timeleap" });
    }

    /** The icon of the files' view, which a window begins with. */
    get explorer(): Locator {
        return this.page.locator(".part.activitybar").getByRole("tab", { name: /Explorer/ });
    }

    /** Show Timeleap's views, wide enough to read what the rows say. */
    async show(): Promise<void> {
        await patiently(async () => {
            if ((await this.icon.getAttribute("aria-selected", { timeout: WHILE })) !== "true") await this.icon.click({ timeout: MOMENT });
            await expect(this.header).toBeVisible({ timeout: MOMENT });
        });
        await this.widen(720);
    }

    /** The title of the view: the session that is shown. */
    get header(): Locator {
        return this.page.locator(".part.sidebar .composite.title").first();
    }

    /** Drag the edge of the side bar to a place, in pixels from the left. */
    async widen(place: number): Promise<void> {
        const sideBar = this.page.locator(".part.sidebar");
        await patiently(async () => {
            const box = await sideBar.boundingBox({ timeout: MOMENT });
            if (!box) throw new Error("there is no side bar");
            const edge = box.x + box.width;
            if (Math.abs(edge - place) < 20) return;
            await this.page.mouse.move(edge + 1, 400);
            await this.page.mouse.down();
            await this.page.mouse.move(place, 400, { steps: 4 });
            await this.page.mouse.up();
            await this.page.mouse.move(place + 200, 400);
            throw new Error("the side bar has just been made wider; look again");
        });
    }

    /** Run a command of the extension from the palette, by the name it has in the manifest. */
    async run(command: string): Promise<void> {
        await this.quick.command(`Timeleap: ${this.texts.command(command)}`);
    }

    /** Run a command that asks something in a box, and answer it. */
    async ask(command: string, prompt: string | RegExp, answer: string): Promise<void> {
        await this.run(command);
        await this.quick.answer(prompt, answer);
    }

    /** Show a session, by the title or id it has in the list. */
    async openSession(name: string): Promise<void> {
        await patiently(async () => {
            if ((await this.header.textContent({ timeout: MOMENT }))?.includes(name)) return;
            await this.run("openSession"); // again, too, where the list is that of a server before
            await this.quick.saying("Open Session…").waitFor({ timeout: WHILE });
            await this.quick.pick("Open Session…", name, WHILE);
            await expect(this.header).toContainText(name, { timeout: WHILE });
        });
    }

    /** The entry of a session in the list to choose from, which is open then. */
    async listed(name: string | RegExp): Promise<Locator> {
        await this.quick.close();
        await this.run("openSession");
        await this.quick.saying("Open Session…").waitFor();
        return this.quick.options.filter({ hasText: name }).first();
    }

    /** Do something with a session that need not be shown. */
    async manage(name: string, action: string): Promise<void> {
        await patiently(async () => {
            await this.run("manageSessions"); // again where the editor took the focus, which closes a list
            await this.quick.choose("Rename, Archive or Delete a Session…", name);
            await this.quick.saying(name).waitFor({ timeout: MOMENT });
        });
        await this.quick.choose(name, action);
    }

    /** Compare a row with a state that is chosen from a list. */
    async compare(row: Locator, other: string, effect: Locator): Promise<void> {
        const question = this.quick.saying(/^Compare: /);
        await this.checkpoints.command(row, this.texts.command("compare"), question);
        await this.quick.choose(/^Compare: /, other);
        await effect.waitFor();
    }

    /** Choose a session that cannot be opened. */
    async openSessionInVain(name: string): Promise<void> {
        await this.run("openSession");
        await this.quick.choose("Open Session…", name);
    }

    /** Restore to before a row, which is done at once: something is said of it. */
    async restore(row: Locator): Promise<void> {
        await this.clearNotifications();
        await this.checkpoints.command(row, this.texts.command("restore"), this.notifications.saying(/./));
    }

    /** The entry of the status bar that says `text`. */
    status(text: string | RegExp): Locator {
        return this.page.locator(".part.statusbar .statusbar-item").filter({ hasText: text });
    }

    /** What is said in the first view instead of rows, with its buttons. */
    welcome(text: string | RegExp): Locator {
        return this.page.locator(".part.sidebar .welcome-view-content").filter({ hasText: text }).first();
    }

    /** Progress bars of views that wait for something. */
    get spinning(): Locator {
        return this.page.locator(".part.sidebar .monaco-progress-container.active");
    }

    /** What is said above the rows, where not all is as usual. */
    saying(text: string | RegExp): Locator {
        return this.page.locator(".part.sidebar .message").filter({ hasText: text }).first();
    }

    /** The text of the editor in front, as far as it is painted. */
    get editor(): Locator {
        return this.page.locator(".editor-instance .view-lines").last();
    }

    get tabs(): Locator {
        return this.page.locator(".tabs-container").getByRole("tab");
    }

    /** Both sides of the diff editor in front. */
    get diff(): { root: Locator; before: Locator; after: Locator } {
        const root = this.page.locator(".monaco-diff-editor");
        return { root, before: root.locator(".editor.original .view-lines"), after: root.locator(".editor.modified .view-lines") };
    }

    /** Put all notifications away: some stay until somebody does. */
    async clearNotifications(): Promise<void> {
        await this.quick.command("Notifications: Clear All Notifications");
    }

    async closeEditors(): Promise<void> {
        await this.quick.command("View: Close All Editors");
    }
}
