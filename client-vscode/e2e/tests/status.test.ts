import { OURS, expect, picture, sample, test } from "../support/test";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

test.beforeAll(async ({ workbench, store, window }) => {
    const workspace = pathToFileURL(workbench.folder).href;
    await store.replay("careful", sample(), { title: "Careful work", workspace });
    await workbench.open();
    await window.show();
    await window.openSession("Careful work");
});

function state(store: { file(id: string, name: string): string }): { approval: { yolo: boolean; auto_approve_actions: string[] } } {
    return JSON.parse(readFileSync(store.file("careful", "state.json"), "utf8")) as ReturnType<typeof state>;
}

test("the tokens used are shown from half of the window on, with a table of what they are made of", async ({ workbench, window }) => {
    await expect(window.status("7K")).toHaveCount(0);
    workbench.configure({ ...OURS, "timeleap.maxContextSize": 10_000 });
    const tokens = window.status("70%");
    await expect(tokens).toBeVisible();
    await tokens.hover();
    await expect(window.page.locator(".monaco-hover")).toContainText("6,950");
    await picture(window, "tokens", { hovering: true });
    workbench.configure(OURS);
    await expect(tokens).toHaveCount(0);
});

test("yolo is asked about in a modal, and cannot be overlooked while it is on", async ({ window, store }) => {
    await window.run("manageApprovals");
    await window.quick.choose("Approvals:", "YOLO");
    await window.dialog.root.waitFor();
    await picture(window, "yolo-question");
    await window.dialog.dismiss();
    await expect(window.status(/yolo/i)).toHaveCount(0);

    await window.run("manageApprovals");
    await window.quick.choose("Approvals:", "YOLO");
    await window.dialog.press("Approve Everything (YOLO)");
    const status = window.status(/yolo/i);
    await expect(status).toBeVisible();
    await expect(status).toHaveClass(/error-kind|warning-kind/);
    await expect.poll(() => state(store).approval.yolo).toBe(true);
    await picture(window, "yolo");

    await window.run("manageApprovals");
    await window.quick.choose("Approvals:", "Ask again for everything");
    await expect(window.status(/yolo/i)).toHaveCount(0);
    await expect.poll(() => state(store).approval.yolo).toBe(false);
});

test("actions that are approved by themselves are listed and revoked", async ({ window, store }) => {
    const agent = store.pipeline();
    await agent.call("initialize");
    await agent.call("session/open", { sessionId: "careful", create: false });
    await agent.call("session/setAutoApprove", { sessionId: "careful", action: "write file", enabled: true });
    await agent.call("session/setAutoApprove", { sessionId: "careful", action: "run tests", enabled: true });
    await expect.poll(() => state(store).approval.auto_approve_actions).toEqual(["run tests", "write file"]);
    await window.run("manageApprovals");
    await window.quick.choose("Approvals:", "write file");
    await expect.poll(() => state(store).approval.auto_approve_actions).toEqual(["run tests"]);
    await agent.close();
});

test("a context that is getting full is shown in another colour, and one that is full in a third", async ({ workbench, window }) => {
    for (const [size, share, colour] of [[8_000, "87%", /warning-kind/], [7_000, "99%", /error-kind/]] as const) {
        workbench.configure({ ...OURS, "timeleap.maxContextSize": size });
        await expect(window.status(share)).toBeVisible();
        await expect(window.status(share)).toHaveClass(colour);
    }
    await picture(window, "full");
    workbench.configure(OURS);
    await expect(window.status(/7K/)).toHaveCount(0);
});
