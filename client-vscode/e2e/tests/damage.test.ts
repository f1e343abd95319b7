import { OURS, expect, picture, sample, test, IMPORTS } from "../support/test";
import { Database } from "../support/database";
import { Store } from "../support/store";
import { mkdirSync, renameSync, rmdirSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { MOMENT, patiently } from "../window/patience";

test.beforeAll(async ({ workbench, store, window }) => {
    const workspace = pathToFileURL(workbench.folder).href;
    await store.replay("whole", sample(), { title: "Whole", workspace });
    await workbench.open();
    await window.show();
    await window.openSession("Whole");
});

test("a session that is damaged beyond opening is said to be, and opens once it is mended", async ({ window, store }) => {
    store.add("broken", sample(), { "state.json": JSON.stringify({ version: 1, custom_title: "Broken" }) });
    const log = store.file("broken", "context.jsonl");
    renameSync(log, `${log}.aside`);
    mkdirSync(log); // nothing that could be read
    await window.run("refresh");
    await expect(await window.listed("Broken")).toContainText("cannot be read");
    await window.quick.close();
    await window.openSessionInVain("Broken");
    await expect(window.saying(/This session's files are damaged and cannot be used/)).toBeVisible();
    await expect(window.checkpoints.row("Open Session…")).toBeVisible();
    await expect(window.spinning).toHaveCount(0);
    await expect((await window.listed("Whole")).locator(".codicon-check")).toHaveCount(0); // it is still open
    await window.quick.close();
    await picture(window, "damaged");

    rmdirSync(log);
    renameSync(`${log}.aside`, log);
    await window.checkpoints.row("Try Again").click();
    await expect(window.header).toContainText("Broken");
    await expect(window.checkpoints.row(IMPORTS, 1)).toBeVisible();
});

test("of a session with lines that cannot be read the rest is shown, and the loss is said above it", async ({ window, store }) => {
    const lines = sample().trimEnd().split("\n");
    store.add("scratched", `${[...lines.slice(0, 6), "{ no json", ...lines.slice(6)].join("\n")}\n`);
    await window.openSession("scratched");
    await expect(window.checkpoints.row(IMPORTS, 1)).toBeVisible();
    await expect(window.saying(/⚠/)).toBeVisible();
    await picture(window, "scratched");
});

test("a session whose last write was cut off is opened without it, and what was cut is kept", async ({ window, store }) => {
    store.add("torn", `${sample()}{"role": "assistant", "content": "half a mess`);
    await window.openSession("torn");
    await expect(window.checkpoints.row(IMPORTS, 1)).toBeVisible();
    await window.notifications.look(/had not been written completely/);
});

test("an owner that hangs is followed, read-only, and joined on a click when it is back", async ({ window, store }) => {
    await window.clearNotifications();
    const agent = store.pipeline();
    await agent.call("initialize");
    await agent.replay("hanging", sample(), { title: "Hanging" });
    const owner = store.owner("hanging") ?? 0;
    await patiently(async () => {
        await window.run("refresh");
        await expect(await window.listed("Hanging")).toContainText(`PID ${String(owner)}`, { timeout: MOMENT });
        await window.quick.close();
    });
    process.kill(owner, "SIGSTOP");
    try {
        await window.openSession("Hanging");
        await expect(window.checkpoints.row(IMPORTS, 1)).toBeVisible({ timeout: 20_000 });
        await expect(window.saying(/only be looked at/)).toBeVisible();
        await picture(window, "follow");
    } finally {
        process.kill(owner, "SIGCONT");
    }
    await agent.call("context/checkpoint", { sessionId: "hanging", label: "alive again" });
    await expect(window.checkpoints.row("alive again", 1)).toBeVisible();
    await window.run("refresh");
    await expect(window.saying(/only be looked at/)).toHaveCount(0);
    await window.ask("createCheckpoint", "Name; it may be empty", "through the owner");
    await expect(window.checkpoints.row("through the owner", 1)).toBeVisible();
    expect(store.owner("hanging")).toBe(owner);
    await agent.close();
});

test("a database that goes away is said to be, over a session that is shown; its sessions are there again when it is back", async ({ workbench, window }) => {
    await window.clearNotifications();
    const database = await Database.start();
    try {
        const store = new Store(workbench.home, { ...workbench.variables, TIMELEAP_STORE: database.url });
        await store.replay("kept-in-a-database", sample(), { title: "In a database", workspace: pathToFileURL(workbench.folder).href });
        workbench.configure({ ...OURS, "timeleap.store": database.url });
        await window.openSession("In a database");
        await expect(window.checkpoints.row(IMPORTS, 1)).toBeVisible();

        await database.goAway();
        await window.run("refresh");
        await window.notifications.look(/The database that the sessions are in cannot be used/);
        await expect(window.checkpoints.row(IMPORTS, 1)).toBeVisible(); // what was read stays
        await picture(window, "database-away");
        await database.comeBack();
        await patiently(async () => {
            await window.run("refresh");
            await expect(window.checkpoints.row(IMPORTS, 1)).toBeVisible({ timeout: MOMENT });
        });
        await window.ask("createCheckpoint", "Name; it may be empty", "after the outage");
        await expect(window.checkpoints.row("after the outage", 1)).toBeVisible();
    } finally {
        workbench.configure(OURS);
        await database.end();
    }
});
