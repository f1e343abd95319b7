/** What every test gets: a running workbench (one for all tests with the same set-up), its window, and its store. */
import { expect, test as base } from "@playwright/test";
import { readFileSync } from "node:fs";
import { Window } from "../window/window";
import { Middleman } from "./middleman";
import { EXTENSION, FIXTURES, PYTHON, ROOT, SAMPLE_SESSION } from "./places";
import { Store } from "./store";
import { Texts } from "./texts";
import { Workbench, type WorkbenchOptions } from "./workbench";
import { join } from "node:path";

export { expect };

/** The packaged extension (`make package`), or another one to try. */
export const VSIX = process.env["TIMELEAP_VSIX"] ?? join(EXTENSION, `timeleap-${version()}.vsix`);

/** Settings with which the extension runs the server of this checkout. */
export const OURS = { "timeleap.server.interpreter": PYTHON };

/** Settings with which it speaks to that server through the middleman. */
export function throughMiddleman(middleman: Middleman): Record<string, unknown> {
    return { "timeleap.server.command": middleman.command };
}

interface Setup extends Partial<WorkbenchOptions> {
    /** Whether the extension speaks to the server through the middleman, from the start of the workbench on. */
    middled?: boolean;
}

/** For those that need another extension beside ours: the sample agent, one that says when all are there, a model, a folder on no disk, a user of chat's tools. */
export const WITH_OTHERS: Setup = {
    extensions: [VSIX, join(ROOT, "examples/vscode-agent"), ...["ready", "model", "virtual", "chat"].map((name) => join(FIXTURES, name))],
};

interface Everything {
    /** How the workbench is set up, beyond this checkout's server and the packaged extension. */
    setup: Setup;
    middleman: Middleman;
    workbench: Workbench;
    window: Window;
    store: Store;
}

export const test = base.extend<object, Everything>({
    setup: [{}, { option: true, scope: "worker" }],
    middleman: [
        // Playwright insists on a pattern.
        async ({}, use) => {
            const middleman = new Middleman();
            await use(middleman);
            middleman.remove();
        },
        { scope: "worker" },
    ],
    workbench: [
        async ({ setup: { middled = false, ...options }, middleman }, use) => {
            const settings = middled ? throughMiddleman(middleman) : OURS;
            const workbench = await Workbench.start({ extensions: [VSIX], settings, ...options });
            try {
                await use(workbench);
            } finally {
                await workbench.stop();
            }
        },
        { scope: "worker", timeout: 300_000 },
    ],
    window: [
        async ({ workbench, setup }, use) => {
            await use(new Window(workbench.page, new Texts(setup.locale)));
        },
        { scope: "worker" },
    ],
    store: [
        async ({ workbench }, use) => {
            await use(new Store(workbench.home, workbench.variables));
        },
        { scope: "worker" },
    ],
});

/** How the rows of two of the sample session's checkpoints begin: where the forgotten imports are put in, and where the second bug is shown. */
export const IMPORTS = "sed -i '1i import";
export const SECOND_BUG = "python -c 'from";

/** The log of the sample session. */
export function sample(): string {
    return readFileSync(SAMPLE_SESSION, "utf8");
}

/** Write what the window shows to the documentation, when that is asked for (`make screenshots`). `hovering`: with the mouse where it is; `height`: in a window of that height. */
export async function picture(window: Window, name: string, { hovering = false, height = 0 } = {}): Promise<void> {
    const folder = process.env["TIMELEAP_SCREENSHOTS"];
    if (!folder) return;
    const size = window.page.viewportSize();
    if (height > 0 && size) await window.page.setViewportSize({ ...size, height });
    await expect(window.spinning).toHaveCount(0);
    if (!hovering) {
        await window.page.mouse.move(1_000, 10);
        await window.page.locator(".monaco-hover:visible").waitFor({ state: "detached" });
    }
    await window.page.screenshot({ animations: "disabled", caret: "hide", path: join(folder, `${name}.png`) });
    if (size) await window.page.setViewportSize(size);
}

/** A moving picture for the documentation, a frame at a time. Like pictures it is made only when that is asked for. */
export class Film {
    private readonly frames: { readonly png: Buffer; readonly milliseconds: number }[] = [];
    private readonly folder = process.env["TIMELEAP_SCREENSHOTS"];

    constructor(private readonly window: Window) {}

    /** Show what is on the screen now for that long. */
    async shows(milliseconds: number): Promise<void> {
        if (!this.folder) return;
        await expect(this.window.spinning).toHaveCount(0);
        this.frames.push({ png: await this.window.page.screenshot({ animations: "disabled", caret: "hide" }), milliseconds });
    }

    async end(name: string): Promise<void> {
        if (!this.folder) return;
        const { default: sharp } = await import("sharp"); // loads native code, which tests do not need
        const frames = this.frames.map(({ png }) => png);
        const delay = this.frames.map(({ milliseconds }) => milliseconds);
        await sharp(frames, { join: { animated: true } }).gif({ delay, colours: 128, effort: 10, dither: 0 }).toFile(join(this.folder, `${name}.gif`));
    }
}

function version(): string {
    return (JSON.parse(readFileSync(join(EXTENSION, "package.json"), "utf8")) as { version: string }).version;
}
