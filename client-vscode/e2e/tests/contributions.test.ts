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
const VIEWS = ["checkpoints", "timelines", "sessions"] as const;
const WRITTEN = "Write tally/split.py";

const TITLE = "Pressed everywhere";

const plain = (command: string): string => command.replace(/^timeleap\./, "");
const meant = (when = "", view: string): boolean => !when.includes("view ==") || when.includes(`timeleap.${view}`);

test.describe.configure({ mode: "serial" });

test.beforeAll(async ({ workbench, store, window }) => {
    await store.replay("pressed", sample(), { title: TITLE, workspace: pathToFileURL(workbench.folder).href });
    await store.call("context/revertTo", { sessionId: "pressed", checkpointId: 5 });
    await store.replay("thrown", sample(), { title: "Thrown away" });
    await store.call("session/delete", { sessionId: "thrown" });
    await workbench.open();
    await window.show();
    await expect(window.checkpoints.row(WRITTEN, 1)).toBeVisible();
});

test("buttons and entries of the views' titles, while no row has been touched", async ({ window }) => {
    const pressing = new Contributions(window.page);
    for (const { command, when } of contributes.menus["view/title"] ?? []) {
        for (const view of VIEWS.filter((one) => meant(when, one))) {
            await window.openSession(TITLE); // which one of them may have closed
            await pressing.title(window.texts.of(`view.${view}`), window.texts.command(plain(command)));
        }
    }
    expect(pressing.troubles).toEqual([]);
    expect(pressing.pressed.length, pressing.pressed.join("\n")).toBeGreaterThan(VIEWS.length * 5);
});

test("entries of the rows' menus", async ({ window }) => {
    const pressing = new Contributions(window.page);
    const checkpoint = window.checkpoints.row(WRITTEN, 1);
    const rows = [
        checkpoint,
        window.checkpoints.row(/write_file/, 2).first(),
        window.timelines.row(/messages/, 1).first(),
        window.timelines.row(/./, 2).first(),
        window.sessions.row(TITLE).first(),
        window.sessions.row("Thrown away").first(),
    ];
    await window.checkpoints.expand(checkpoint);
    await window.timelines.expand(window.timelines.row(/messages/, 1).first());
    await window.sessions.expand(window.sessions.row("Trash", 1));
    for (const row of rows) {
        for (const named of await pressing.entries(row)) {
            await pressing.entry(row, named);
            await window.openSession(TITLE);
            await expect(checkpoint).toBeVisible();
        }
    }
    expect(pressing.troubles).toEqual([]);
    expect(pressing.pressed.length, pressing.pressed.join("\n")).toBeGreaterThan(25);
});
