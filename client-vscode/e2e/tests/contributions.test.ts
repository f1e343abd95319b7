import { expect, sample, test } from "../support/test";
import { EXTENSION } from "../support/places";
import { Contributions } from "../window/contributions";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

// What the manifest contributes to titles and rows is pressed once, from every place that it is contributed to, as a person does who
// looks what there is: whatever asks is put away. Nothing may fail, and nothing may be said to be gone.
interface Item {
    readonly command: string;
    readonly when?: string;
}

interface Manifest {
    readonly contributes: {
        readonly menus: Readonly<Record<string, readonly Item[]>>;
    };
}

const { contributes } = JSON.parse(readFileSync(join(EXTENSION, "package.json"), "utf8")) as Manifest;
const PROMPT = "That is not fair";

const TITLE = "Pressed everywhere";

const plain = (command: string): string => command.replace(/^timeleap\./, "");

test.describe.configure({ mode: "serial" });

test.beforeAll(async ({ workbench, store, window }) => {
    await store.replay("pressed", sample(), { title: TITLE, workspace: pathToFileURL(workbench.folder).href });
    await store.call("context/revertTo", { sessionId: "pressed", checkpointId: 5 });
    await store.replay("thrown", sample(), { title: "Thrown away" });
    await store.call("session/delete", { sessionId: "thrown" });
    await workbench.open();
    await window.show();
    await expect(window.checkpoints.row(PROMPT, 1)).toBeVisible();
});

test("buttons and entries of the views' titles, while no row has been touched", async ({ window }) => {
    const pressing = new Contributions(window.page);
    for (const { command } of contributes.menus["view/title"] ?? []) {
        await window.openSession(TITLE); // which one of them may have closed
        await pressing.title(window.texts.command(plain(command)));
    }
    expect(pressing.troubles).toEqual([]);
    expect(pressing.pressed.length, pressing.pressed.join("\n")).toBeGreaterThan(10);
});

test("entries of the rows' menus", async ({ window }) => {
    const pressing = new Contributions(window.page);
    const checkpoint = window.checkpoints.row(PROMPT, 1);
    // These are done at once and take rows away; travel.test presses them.
    const atOnce = ["restore", "restoreTimeline"].map((command) => window.texts.command(command));
    const branch = window.checkpoints.row("Before a restore", 1);
    const rows = [
        checkpoint,
        window.checkpoints.row(PROMPT, 2).first(),
        branch,
        window.checkpoints.row(/pytest -q/, 1).first(),
    ];
    await window.checkpoints.expand(checkpoint);
    await window.checkpoints.expand(branch);
    for (const row of rows) {
        for (const named of (await pressing.entries(row)).filter((one) => !atOnce.includes(one))) {
            await pressing.entry(row, named);
            await window.openSession(TITLE);
            await expect(checkpoint).toBeVisible();
        }
    }
    expect(pressing.troubles).toEqual([]);
    expect(pressing.pressed.length, pressing.pressed.join("\n")).toBeGreaterThan(10);
});
