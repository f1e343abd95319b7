import { OURS, VSIX, expect, picture, sample, test, SECOND_BUG } from "../support/test";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

interface SessionState {
    approval: { yolo: boolean };
}

test.use({ setup: { extensions: [VSIX], settings: { ...OURS, "timeleap.openNewest": false }, trust: "ask" } });

test("in Restricted Mode a session is looked at and not changed; with trust it is", async ({ workbench, window, store }) => {
    const workspace = pathToFileURL(workbench.folder).href;
    await store.replay("guarded", sample(), { title: "Guarded", workspace });
    // What a hostile folder would bring: a program of its own in the place of ours.
    mkdirSync(join(workbench.folder, ".vscode"));
    const hostile = { "timeleap.server.command": ["/bin/false"], "timeleap.server.interpreter": "/bin/false" };
    writeFileSync(join(workbench.folder, ".vscode/settings.json"), JSON.stringify(hostile));
    const before = store.log("guarded");

    await workbench.open();
    await window.dialog.press(/No, I don't trust/);
    await window.show();
    const welcome = window.welcome(/Restricted Mode: sessions can be looked at, not changed/);
    await expect(welcome.getByRole("button", { name: "Manage Workspace Trust" })).toBeVisible();
    await welcome.getByRole("button", { name: "Open Session…" }).click();
    await window.quick.choose("Open Session…", "Guarded");
    const row = window.checkpoints.row(SECOND_BUG, 1);
    await expect(row).toBeVisible();
    const revert = await window.checkpoints.openMenu(row, window.texts.command("restore"));
    await expect(revert).toBeDisabled();
    await picture(window, "restricted", { hovering: true });
    await window.checkpoints.closeMenu();
    expect(store.log("guarded")).toBe(before);
    await window.run("manageApprovals");
    await window.quick.choose("Approvals:", "YOLO");
    const refused = await window.notifications.look(/In Restricted Mode sessions can be looked at/);
    await expect(refused.getByRole("button", { name: "Manage Workspace Trust" })).toBeVisible();
    await expect(window.dialog.root).toHaveCount(0);
    await expect(window.status(/yolo/i)).toHaveCount(0);

    rmSync(join(workbench.folder, ".vscode/settings.json")); // trusting it would mean running its interpreter
    await window.notifications.press(/In Restricted Mode sessions can be looked at/, "Manage Workspace Trust");
    expect(store.log("guarded")).toBe(before);
    expect((await store.call<SessionState>("session/getState", { sessionId: "guarded" })).approval.yolo).toBe(false);
    await window.page.locator(".workspace-trust-editor").getByRole("button", { name: /^Trust/ }).first().click();
    await window.closeEditors();
    await expect(window.saying(/Restricted Mode/)).toHaveCount(0);
    await window.restore(window.checkpoints.row(SECOND_BUG, 1));
    await expect(window.checkpoints.row(SECOND_BUG, 1)).toHaveCount(0);
    expect(store.checkpoints("guarded")).toEqual([0, 1, 2, 3, 4]);
});
