import { expect, sample, test } from "../support/test";
import type { Store } from "../support/store";
import type { Window } from "../window/window";
import { pathToFileURL } from "node:url";

/** Milliseconds from starting the program to its first page of checkpoints, with nothing in between. */
async function coldStart(store: Store): Promise<number> {
    const started = performance.now();
    const pipeline = store.pipeline();
    await pipeline.call("initialize");
    await pipeline.call("session/open", { sessionId: "small", create: false, access: "readOnly" });
    await pipeline.call("context/listCheckpoints", { sessionId: "small", limit: 100 });
    const took = performance.now() - started;
    await pipeline.close();
    return took;
}

/** Milliseconds from the click on Timeleap's icon to the first row of checkpoints. */
async function firstTree(window: Window): Promise<number> {
    const tab = window.page.locator(".part.activitybar").getByRole("tab", { name: "Timeleap" });
    await tab.waitFor();
    await window.page.waitForTimeout(2_000); // the window has settled; nothing of ours runs yet
    const started = performance.now();
    await tab.click();
    await expect(window.checkpoints.rows.first()).toBeVisible();
    return performance.now() - started;
}

test("the first tree does not keep anybody waiting longer than the server's own cold start explains", async ({ workbench, window, store }) => {
    await store.replay("small", sample(), { title: "Small", workspace: pathToFileURL(workbench.folder).href });
    const ratios: number[] = [];
    for (let round = 0; round < 2; round += 1) {
        const server = await coldStart(store);
        await workbench.open();
        await window.page.locator(".part.activitybar").getByRole("tab", { name: /Explorer/ }).click();
        await workbench.open();
        const tree = await firstTree(window);
        ratios.push(tree / server);
        console.log(`  first tree ${tree.toFixed(0)} ms, server alone ${server.toFixed(0)} ms: ${(tree / server).toFixed(2)}`);
    }
    // The aim is 2. Browser, extension host and server share the processor here, and with whatever else runs.
    expect(Math.min(...ratios)).toBeLessThan(6);
});

