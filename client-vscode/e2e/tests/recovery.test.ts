import { until } from "../support/process";
import { OURS, throughMiddleman, expect, picture, sample, test, IMPORTS } from "../support/test";
import { pathToFileURL } from "node:url";

test.beforeAll(async ({ workbench, store, window, middleman }) => {
    workbench.configure(throughMiddleman(middleman)); // which lets things go wrong
    const workspace = pathToFileURL(workbench.folder).href;
    await store.replay("sturdy", sample(), { title: "Sturdy", workspace });
    await workbench.open();
    await window.show();
    await window.closeEditors(); // a page of another file asks the server, too
    await window.openSession("Sturdy");
    await expect(window.checkpoints.row(IMPORTS, 1)).toBeVisible();
});

test.afterAll(({ workbench }) => {
    workbench.configure(OURS);
});

test("a server that is killed is started again, and the session goes on", async ({ window, store }) => {
    const killed = await store.livingOwner("sturdy");
    process.kill(killed, "SIGKILL");
    await expect(window.saying(/was started again at/)).toBeVisible();
    await picture(window, "recovered");
    await window.ask("createCheckpoint", "Name; it may be empty", "after the crash");
    await expect(window.checkpoints.row("after the crash", 1)).toBeVisible();
    expect(store.owner("sturdy")).not.toBe(killed);
    expect(store.checkpoints("sturdy")).toHaveLength(11);
});

for (const when of ["dieBefore", "dieAfter"] as const) {
    const told = when === "dieBefore" ? "before it began" : "after it was done, unheard";
    test(`a server that dies in the middle of a revert, ${told}: the revert takes effect once`, async ({ window, store, middleman }) => {
        const timelines = store.timelines("sturdy").length;
        const [, target] = store.checkpoints("sturdy").slice(-2);
        middleman.plan({ [when]: "context/revertTo" });
        const asked = Date.now();
        await window.restore(window.checkpoints.rows.first());
        await until("the revert is on disk", () => store.timelines("sturdy").length === timelines + 1);
        const undo = (await window.notifications.look(/Restored to before /)).getByRole("button", { name: "Undo" });
        await expect(undo).toBeVisible();
        expect(store.checkpoints("sturdy")).not.toContain(target);
        const requests = middleman.asked("context/revertTo", asked).filter(({ params }) => params?.["dryRun"] !== true);
        expect(new Set(requests.map(({ params }) => params?.["requestId"])).size).toBe(1);
        expect(store.timelines("sturdy")).toHaveLength(timelines + 1);
        await window.clearNotifications();
    });
}

test("a server that never answers is given up on, in words, with the next step as a button", async ({ window, middleman }) => {
    middleman.plan({ silent: true });
    await window.run("restartServer");
    await expect(window.saying(/does not answer/)).toBeVisible({ timeout: 40_000 });
    await expect(window.spinning).toHaveCount(0);
    await picture(window, "silent");
    middleman.plan({});
    await window.checkpoints.row("Try Again").click();
    await expect(window.checkpoints.row("Try Again")).toHaveCount(0);
    await expect(window.checkpoints.row("Guests complain", 1)).toBeVisible();
});

test("a server of another protocol version is named as that", async ({ window, middleman }) => {
    await window.clearNotifications();
    middleman.plan({ speak: 2 });
    await window.run("restartServer");
    await expect(window.saying(/another version of the protocol/)).toBeVisible();
    await expect(window.spinning).toHaveCount(0);
    await picture(window, "protocol");
    middleman.plan({});
    await window.checkpoints.row("Try Again").click();
    await expect(window.checkpoints.row("Try Again")).toHaveCount(0);
});

test("a server that ends whenever it is started is given up on, and started again when asked", async ({ window, store, middleman }) => {
    const killed = await store.livingOwner("sturdy");
    middleman.plan({ dieAlways: "initialize" });
    process.kill(killed, "SIGKILL");
    await expect(window.saying(/ends again and again/)).toBeVisible();
    await expect(window.spinning).toHaveCount(0);
    middleman.plan({});
    await window.checkpoints.row("Try Again").click();
    await expect(window.checkpoints.row("Try Again")).toHaveCount(0);
});

test("a request that is not answered in time is given up on in words; what became of it is shown after a restart", async ({ workbench, window, store, middleman }) => {
    const before = store.checkpoints("sturdy").length;
    const since = Date.now();
    workbench.configure({ ...throughMiddleman(middleman), "timeleap.requestTimeout": 10 });
    // Not the one before, which may be opening the session still though its rows are shown again.
    await until("another server, with the new setting, has the session open", () => {
        const begun = middleman.passed(since).find(({ from, kind, method }) => from === "server" && kind === "reply" && method === "initialize");
        return begun !== undefined && middleman.answered("session/open", begun.time);
    });
    middleman.plan({ silent: true });
    await window.ask("createCheckpoint", "Name; it may be empty", "unheard");
    await until("it is made, which nobody hears", () => middleman.answered("context/checkpoint", since));
    await window.notifications.look(/The server did not answer/);
    middleman.plan({});
    await window.notifications.press(/The server did not answer/, "Restart Server");
    await expect(window.checkpoints.row("unheard", 1)).toBeVisible();
    expect(store.checkpoints("sturdy")).toHaveLength(before + 1);
});
