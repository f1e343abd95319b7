import { expect, picture, sample, test, IMPORTS } from "../support/test";
import { existsSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { pathToFileURL } from "node:url";
import { press } from "../window/menu";
import { patiently } from "../window/patience";

test.use({ setup: {} }); // a store of its own: what other files leave there would push rows out of the visible list

test.beforeAll(async ({ workbench, store, window }) => {
    const workspace = pathToFileURL(workbench.folder).href;
    await store.replay("elsewhere", sample(), { title: "In another folder", workspace: "file:///somewhere/else" });
    await store.replay("here", sample(), { title: "In this folder", workspace });
    await workbench.open();
    await window.show();
    await window.openSession("In this folder");
});

test("sessions of this workspace come first, with title, age and tokens", async ({ window, workbench }) => {
    const here = await window.listed("In this folder");
    await expect(here).toContainText("7K tokens");
    await expect(here.locator(".codicon-check")).toBeVisible();
    const listed = (await window.quick.options.allInnerTexts()).filter((text) => text.includes("folder"));
    expect(listed[0]).toContain("In this folder");
    await expect(window.quick.options.filter({ hasText: "In another folder" })).toContainText("else"); // the folder it is of
    await expect(window.quick.options.first()).toContainText(basename(workbench.folder));
    await picture(window, "sessions");
    await window.quick.close();
});

test("a new session is made, written to disk and shown", async ({ window, store }) => {
    const before = store.sessions();
    await window.ask("newSession", "Name; it may be empty", "Fix the build");
    await expect(window.header).toContainText("Fix the build", { ignoreCase: true });
    const made = store.sessions().filter((id) => !before.includes(id));
    expect(made).toHaveLength(1);
    expect(existing(store.file(made[0] ?? "", "state.json"))).toContain("Fix the build");
    await expect((await window.listed("Fix the build")).locator(".codicon-check")).toBeVisible();
    await window.quick.close();
});

test("a session that is not shown is renamed, archived, deleted and taken out of the trash", async ({ window, store }) => {
    await window.manage("In another folder", "Rename…");
    await window.quick.answer("Rename…", "Somewhere else");
    await expect.poll(() => existing(store.file("elsewhere", "state.json"))).toContain("Somewhere else");
    await window.manage("Somewhere else", "Archive");
    await expect(await window.listed("Somewhere else")).toContainText("Archived");
    await window.manage("Somewhere else", "Unarchive");
    await expect(await window.listed("Somewhere else")).not.toContainText("Archived");
    await window.quick.close();

    const log = store.log("elsewhere");
    await window.manage("Somewhere else", "Delete");
    await window.notifications.look(/In the trash: Somewhere else/);
    await expect.poll(() => store.sessions()).not.toContain("elsewhere");
    expect(readdirSync(join(store.home, "trash"))).toHaveLength(1);
    await window.run("openSession");
    await window.quick.choose("Open Session…", "Take Out of the Trash");
    await window.quick.choose("Take Out of the Trash", "Somewhere else");
    await expect.poll(() => store.sessions()).toContain("elsewhere");
    expect(store.log("elsewhere")).toBe(log);
});

test("a session is exported as Markdown", async ({ window, workbench }) => {
    await window.openSession("In this folder");
    await window.run("exportSession");
    await window.quick.choose("Export as what?", "Markdown");
    const file = join(workbench.folder, "In this folder.md"); // as the dialog proposes
    await window.quick.confirm("Export Session…", file);
    await expect.poll(() => (existsSync(file) ? readFileSync(file, "utf8") : "")).toContain("I forgot the imports");
    expect(existing(file)).toContain("25 passed in 0.09s");
    rmSync(file);
});

test("ids are copied, and the log of what the extension does is shown", async ({ window, store }) => {
    await window.openSession("In this folder");
    const row = window.checkpoints.row(IMPORTS, 1);
    await expect(row).toBeVisible();
    await window.page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await patiently(async () => {
        await press(await window.checkpoints.openMenu(row, window.texts.command("copyId")));
        const copied = await window.page.evaluate(() => navigator.clipboard.readText());
        const { checkpoints } = await store.call<{ checkpoints: { uid: string }[] }>("context/listCheckpoints", { sessionId: "here" });
        expect(checkpoints.map(({ uid }) => uid)).toContain(copied);
    });
    await window.run("showLogs");
    const channel = window.page.locator(".part.panel select option:checked");
    await expect(channel.filter({ hasText: "Timeleap" }).first()).toBeAttached();
    await window.quick.command("View: Toggle Panel Visibility");
});

test("without a session the view says what one is, and how to come to one", async ({ window }) => {
    await window.openSession("In this folder");
    await window.manage("In this folder", "Close Session");
    const welcome = window.welcome(/See each step of your agent/);
    await expect(welcome).toBeVisible();
    await expect(window.checkpoints.rows).toHaveCount(0);
    await expect(welcome.getByRole("button", { name: "Try It with a Sample Conversation" })).toBeVisible();
    await picture(window, "no-session");
    await welcome.getByRole("button", { name: "Open Session…" }).click();
    await window.quick.choose("Open Session…", "In this folder");
    await expect(window.checkpoints.row(IMPORTS, 1)).toBeVisible();
});

test("a folder of somebody else's is opened as a session, to look only", async ({ workbench, window }) => {
    const { folder } = workbench; // the dialog proposes it
    writeFileSync(join(folder, "context.jsonl"), sample());
    const before = readdirSync(folder);
    await window.run("openSession");
    await window.quick.choose("Open Session…", "A folder with a context.jsonl");
    await window.quick.confirm("A folder with a context.jsonl", `${folder}/`, "Open");
    await window.quick.choose(folder, "Look only");
    await expect(window.header).toContainText(basename(folder));
    await expect(window.checkpoints.row(IMPORTS, 1)).toBeVisible();
    await expect(window.saying(/can only be looked at/)).toBeVisible();
    expect(readdirSync(folder)).toEqual(before); // nothing was written beside it
    rmSync(join(folder, "context.jsonl"));
});

function existing(file: string): string {
    return readFileSync(file, "utf8");
}
