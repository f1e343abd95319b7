import { expect, picture, sample, test } from "../support/test";
import { existsSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

test.beforeAll(async ({ workbench, store, window }) => {
    const workspace = pathToFileURL(workbench.folder).href;
    await store.replay("elsewhere", sample(), { title: "In another folder", workspace: "file:///somewhere/else" });
    await store.replay("here", sample(), { title: "In this folder", workspace });
    await workbench.open();
    await window.show();
    await window.openSession("In this folder");
});

test("sessions of this workspace come first, with title, age and tokens", async ({ window }) => {
    await expect(window.sessions.row("In this folder")).toContainText("7K tokens");
    await expect(window.sessions.row("In another folder")).toBeVisible();
    const tops = await window.sessions.rows.evaluateAll((rows) =>
        rows.map((row) => [row.getBoundingClientRect().top, row.textContent] as const).sort(([one], [other]) => one - other),
    );
    const order = tops.map(([, text]) => text).filter((text) => text.includes("folder"));
    expect(order[0]).toContain("In this folder");
    await picture(window, "sessions");
});

test("a new session is made, written to disk and shown", async ({ window, store }) => {
    const before = store.sessions();
    await window.ask("newSession", "What is the session about", "Fix the build");
    await expect(window.page.locator(".part.sidebar .pane-header").first()).toContainText("Fix the build");
    const made = store.sessions().filter((id) => !before.includes(id));
    expect(made).toHaveLength(1);
    expect(existing(store.file(made[0] ?? "", "state.json"))).toContain("Fix the build");
    await expect(window.sessions.row("Fix the build")).toContainText("shown");
});

test("a session is renamed, archived, deleted and taken out of the trash", async ({ window, store }) => {
    await window.sessions.command(window.sessions.row("In another folder"), window.texts.command("setTitle"), window.quick.saying("Title of the session"));
    await window.quick.answer("Title of the session", "Somewhere else");
    await expect(window.sessions.row("Somewhere else")).toBeVisible();
    expect(existing(store.file("elsewhere", "state.json"))).toContain("Somewhere else");

    const archived = window.sessions.row(/Somewhere else.*archived/);
    await window.sessions.command(window.sessions.row("Somewhere else"), window.texts.command("archive"), archived);
    const unarchived = window.sessions.row(/Somewhere else/).filter({ hasNotText: "archived" });
    await window.sessions.command(archived, window.texts.command("unarchive"), unarchived);

    const log = store.log("elsewhere");
    await window.sessions.command(window.sessions.row("Somewhere else"), window.texts.command("delete"), window.dialog.root);
    await window.dialog.press(/Delete|Trash/);
    await expect.poll(() => store.sessions()).not.toContain("elsewhere");
    expect(readdirSync(join(store.home, "trash"))).toHaveLength(1);
    await window.sessions.expand(window.sessions.row("Trash", 1));
    const back = window.sessions.row(/Somewhere else/, 2).filter({ hasNotText: "deleted" });
    await window.sessions.command(window.sessions.row(/Somewhere else.*deleted/, 2), window.texts.command("undelete"), back);
    expect(store.sessions()).toContain("elsewhere");
    expect(store.log("elsewhere")).toBe(log);
});

test("a session is exported as Markdown", async ({ window, workbench }) => {
    await window.openSession("In this folder");
    await window.run("exportMarkdown");
    const file = join(workbench.folder, "In this folder.md"); // as the dialog proposes
    await window.quick.confirm("Export Transcript", file);
    await expect.poll(() => (existsSync(file) ? readFileSync(file, "utf8") : "")).toContain("I forgot the imports");
    expect(existing(file)).toContain("25 passed in 0.09s");
    rmSync(file);
});

function existing(file: string): string {
    return readFileSync(file, "utf8");
}
