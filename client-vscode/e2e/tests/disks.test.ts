import { OURS, expect, picture, sample, test, IMPORTS } from "../support/test";
import { TIMELEAP } from "../support/places";
import { lives, run, until } from "../support/process";
import type { Store } from "../support/store";
import type { Workbench } from "../support/workbench";
import { chmodSync, existsSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

// The server sees disks that this machine has not: in a mount namespace of its own, or without root's leave to write everywhere.
const ROOT = process.getuid?.() === 0;
const NAMESPACE = ROOT ? ["unshare", "--mount"] : ["unshare", "--map-root-user", "--mount"];
const UNPRIVILEGED = ROOT ? ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--inh-caps", "-dac_override,-dac_read_search"] : ["env"];

test.describe.configure({ mode: "serial" });

test.beforeAll(async ({ workbench, store, window }) => {
    const workspace = pathToFileURL(workbench.folder).href;
    for (const name of ["full", "read-only", "forbidden"]) await store.replay(`disk-${name}`, sample(), { title: `On a ${name} disk`, workspace });
    await workbench.open();
    await window.show();
    await window.openSession("On a full disk");
    await expect(window.checkpoints.row(IMPORTS, 1)).toBeVisible();
});

test.afterEach(({ workbench, store }) => {
    workbench.configure(OURS);
    permit(store, true);
});

/** Have the extension start a server by that command, with shell commands before it; return its process. */
async function serveBy(workbench: Workbench, command: readonly string[], ...prepared: readonly string[]): Promise<number> {
    const note = join(workbench.scratch, "server.pid");
    rmSync(note, { force: true });
    const script = ["set -e", ...prepared, `echo $$ > ${note}`, `exec ${TIMELEAP} serve`].join("; ");
    workbench.configure({ "timeleap.server.command": [...command, "sh", "-c", script] });
    await until("the server that the settings name is started", () => existsSync(note) && readFileSync(note, "utf8") !== "");
    return Number(readFileSync(note, "utf8"));
}

/** Run a shell command where that process sees its disks. */
async function inside(pid: number, script: string): Promise<void> {
    expect(lives(pid)).toBe(true);
    await run("nsenter", [...(ROOT ? [] : ["--user", "--preserve-credentials"]), "--mount", "--target", String(pid), "sh", "-c", script], process.env);
}

function permit(store: Store, permitted: boolean): void {
    const folder = store.file("disk-forbidden", "");
    chmodSync(folder, permitted ? 0o700 : 0o500);
    for (const name of readdirSync(folder)) chmodSync(join(folder, name), permitted ? 0o600 : 0o400);
}

test("a full disk: the session stays readable, what cannot be kept is said not to have been made, and works once there is room", async ({ workbench, window, store }) => {
    const folder = store.file("disk-full", "");
    const owner = store.owner("disk-full") ?? 0;
    const pid = await serveBy(workbench, NAMESPACE, `cp -a ${folder} ${workbench.scratch}/kept`, `mount -t tmpfs -o size=1m,mode=700 tmpfs ${folder}`, `cp -a ${workbench.scratch}/kept/. ${folder}`);
    await until("the server before it has ended", () => !lives(owner));
    await window.ask("createCheckpoint", "Name; it may be empty", "while there is room");
    await expect(window.checkpoints.row("while there is room", 1)).toBeVisible();
    await inside(pid, `cat /dev/zero > ${folder}/filler || true`);
    await window.restore(window.checkpoints.row(IMPORTS, 1));
    await window.notifications.look(/The disk is full.* Nothing was changed\. Make room, then try again\./);
    await expect(window.checkpoints.row("while there is room", 1)).toBeVisible();
    await picture(window, "disk-full");
    await inside(pid, `rm ${folder}/filler`);
    await window.restore(window.checkpoints.row(IMPORTS, 1));
    await expect(window.checkpoints.row(IMPORTS, 1)).toHaveCount(0);
    await window.notifications.press(/Restored to before /, "Undo");
    await expect(window.checkpoints.row("while there is room", 1)).toBeVisible();
});

test("a read-only disk: the session is shown, it is said why it cannot be changed, and it can be once the disk can", async ({ workbench, window, store }) => {
    const folder = store.file("disk-read-only", "");
    const before = store.log("disk-read-only");
    const pid = await serveBy(workbench, NAMESPACE, `mount --bind ${folder} ${folder}`, `mount -o remount,bind,ro ${folder}`);
    await window.openSession("On a read-only disk");
    await expect(window.checkpoints.row(IMPORTS, 1)).toBeVisible();
    await expect(window.saying(/The disk is read-only: .* can only be looked at here\./)).toBeVisible();
    const revert = await window.checkpoints.openMenu(window.checkpoints.row(IMPORTS, 1), window.texts.command("restore"));
    await expect(revert).toBeDisabled();
    await window.checkpoints.closeMenu();
    await picture(window, "disk-read-only");
    await window.checkpoints.row(IMPORTS, 1).locator(".monaco-icon-label").click(); // the conversation can be read
    await expect(window.page.getByRole("tab", { name: "On a read-only disk" })).toBeVisible();
    await inside(pid, `mount -o remount,bind,rw ${folder}`);
    await window.run("refresh");
    await expect(window.saying(/The disk is read-only/)).toHaveCount(0);
    expect(store.log("disk-read-only")).toBe(before);
    await window.ask("createCheckpoint", "Name; it may be empty", "written after all");
    await expect(window.checkpoints.row("written after all", 1)).toBeVisible();
    await window.closeEditors();
});

test("a forbidden folder: the session is shown as long as it may be read, and the permission that is missing is named", async ({ workbench, window, store }) => {
    await window.clearNotifications();
    permit(store, false);
    await serveBy(workbench, UNPRIVILEGED);
    await window.openSession("On a forbidden disk");
    await expect(window.checkpoints.row(IMPORTS, 1)).toBeVisible();
    await expect(window.saying(/Permission is denied: .* can only be looked at here\./)).toBeVisible();
    await picture(window, "disk-forbidden");

    chmodSync(store.file("disk-forbidden", ""), 0o000);
    await window.run("refresh");
    const reason = window.saying(/Permission is denied: .* The session could not be opened\./);
    await expect(reason).toBeVisible();
    await window.run("refresh");
    await expect(window.notifications.saying(/Permission is denied/)).toHaveCount(0); // one box per problem
    await expect(reason).toBeVisible();
    const listed = await window.listed("disk-forbidden");
    await expect(listed).toContainText("cannot be read");
    await expect(listed).not.toContainText("damaged");
    await window.quick.close();
    await picture(window, "disk-unreadable");
    permit(store, true);
    await window.checkpoints.row("Try Again").click();
    await expect(window.checkpoints.row(IMPORTS, 1)).toBeVisible();
    await expect(window.saying(/Permission is denied/)).toHaveCount(0);
    await window.ask("createCheckpoint", "Name; it may be empty", "permitted");
    await expect(window.checkpoints.row("permitted", 1)).toBeVisible();
});
