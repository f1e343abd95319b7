import { expect, picture, sample, test } from "../support/test";
import { pathToFileURL } from "node:url";

test.beforeAll(async ({ workbench, store, window }) => {
    const workspace = pathToFileURL(workbench.folder).href;
    await store.replay("whole", sample(), { title: "Whole", workspace });
    await store.replay("broken", sample(), { title: "Broken", workspace });
    await workbench.open();
    await window.show();
    await window.openSession("Whole");
});

test("an owner that hangs is followed, read-only, and joined when it is back", async ({ window, store }) => {
    const agent = store.pipeline();
    await agent.call("initialize");
    await agent.replay("hanging", sample(), { title: "Hanging" });
    const owner = store.owner("hanging") ?? 0;
    process.kill(owner, "SIGSTOP");
    try {
        await window.openSession("Hanging");
        await expect(window.checkpoints.row("I forgot the imports", 1)).toBeVisible({ timeout: 20_000 });
        await expect(window.saying(/only be looked at/)).toBeVisible();
        await picture(window, "follow");
    } finally {
        process.kill(owner, "SIGCONT");
    }
    await agent.call("context/checkpoint", { sessionId: "hanging", label: "alive again" });
    await expect(window.checkpoints.row("alive again", 1)).toBeVisible();
    await agent.close();
});
