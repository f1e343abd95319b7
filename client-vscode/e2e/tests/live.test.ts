import { expect, picture, sample, test, IMPORTS, SECOND_BUG } from "../support/test";
import type { Pipeline } from "../support/store";
import { pathToFileURL } from "node:url";

test.describe.configure({ mode: "serial" });

// An agent in another process owns the session; the window joins it, and both change it.
let agent: Pipeline;

test.beforeAll(async ({ workbench, store, window }) => {
    agent = store.pipeline();
    await agent.call("initialize", { clientInfo: { name: "agent" } });
    const workspace = pathToFileURL(workbench.folder).href;
    await agent.replay("live", sample(), { title: "An agent at work", workspace });
    await workbench.open();
    await window.show();
    await window.openSession("An agent at work");
    await expect(window.checkpoints.row(IMPORTS, 1)).toBeVisible();
});

test.afterAll(async () => {
    await agent.close();
});

test("checkpoints appear while another process appends", async ({ window, store }) => {
    await agent.call("context/checkpoint", { sessionId: "live", label: "step by step" });
    await expect(window.checkpoints.row("step by step", 1)).toBeVisible();
    const message = { role: "assistant", content: "One more thing: the README says nothing about rounding." };
    await agent.call("context/appendMessage", { sessionId: "live", message });
    await window.checkpoints.expand(window.checkpoints.row("step by step", 1));
    await expect(window.checkpoints.row("One more thing", 2)).toBeVisible();
    await agent.call("context/updateTokenCount", { sessionId: "live", tokenCount: 123_456 });
    await expect(await window.listed("An agent at work")).toContainText("123.5K");
    await window.quick.close();
    expect(store.owner("live")).not.toBe(undefined);
    await picture(window, "live");
});

test("reverting the live session goes through its owner, which hears of it", async ({ window, store }) => {
    const before = store.log("live");
    const heard = agent.heard("context/didChange").length;
    await window.restore(window.checkpoints.row(SECOND_BUG, 1));
    await expect(window.checkpoints.row(SECOND_BUG, 1)).toHaveCount(0);
    expect(store.checkpoints("live")).toEqual([0, 1, 2, 3, 4]);
    const news = agent.heard("context/didChange").slice(heard);
    expect(news).toMatchObject([{ sessionId: "live", kind: "reverted", cause: { client: "timeleap-vscode" } }]);

    await window.notifications.press(/Restored to before /, "Undo");
    await expect(window.checkpoints.row("step by step", 1)).toBeVisible();
    await expect.poll(() => store.log("live")).toBe(before);
    // The agent goes on as if nothing had been.
    await agent.call("context/checkpoint", { sessionId: "live", label: "after the undo" });
    await expect(window.checkpoints.row("after the undo", 1)).toBeVisible();
});

test("a checkpoint that the agent has taken back meanwhile cannot be reverted to, and the tree says so", async ({ window, store }) => {
    await window.checkpoints.command(window.checkpoints.row("step by step", 1), window.texts.command("restoreWithOptions"), window.dialog.root);
    await agent.call("context/revertTo", { sessionId: "live", checkpointId: 9 });
    const now = store.log("live");
    await window.dialog.press(/Restore/);
    const said = await window.notifications.look(/changed meanwhile|no longer exists/);
    await expect(said.getByRole("button", { name: /^Show (Checkpoints|Timelines)$/ })).toBeVisible();
    await expect(window.checkpoints.row("step by step", 1)).toHaveCount(0);
    expect(store.log("live")).toBe(now);
});

test("when the agent ends, the window takes the session over", async ({ window, store }) => {
    await agent.close();
    await window.ask("createCheckpoint", "Name; it may be empty", "on my own now");
    await expect(window.checkpoints.row("on my own now", 1)).toBeVisible();
    expect(store.records("live").at(-1)).toMatchObject({ role: "_checkpoint" });
});
