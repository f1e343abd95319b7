import { FIXTURES, PYTHON } from "../support/places";
import { basePython, fetchWheels } from "../support/wheels";
import { VSIX, expect, picture, sample, test, IMPORTS } from "../support/test";
import type { Workbench } from "../support/workbench";
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

// A machine on which no Python is found unless a test puts one there. What pip would fetch lies in a folder.
test.use({
    setup: {
        extensions: [VSIX, join(FIXTURES, "python"), join(FIXTURES, "environments")],
        settings: {},
        environment: (scratch) => ({
            PATH: join(scratch, "bin"),
            PIP_NO_INDEX: "1",
            PIP_FIND_LINKS: join(scratch, "wheels"),
        }),
    },
});
test.describe.configure({ mode: "serial" });

test.beforeAll(async ({ workbench, store, window }) => {
    mkdirSync(join(workbench.scratch, "bin"));
    await store.replay("found", sample(), { title: "Found", workspace: pathToFileURL(workbench.folder).href });
    await workbench.open();
    await window.show();
});

/** Put a program there that notes that it was called, and does what the script says. */
function program(workbench: Workbench, name: string, script: string): string {
    const file = join(workbench.scratch, "bin", name);
    writeFileSync(file, `#!/bin/sh\necho "$@" >> "${file}.calls"\n${script}\n`, { mode: 0o755 });
    return file;
}

/** Whether a program of ours was called to serve. */
function served(file: string): boolean {
    return existsSync(`${file}.calls`) && /\bserve\b/.test(readFileSync(`${file}.calls`, "utf8"));
}

test("without Python the view says so and what to do", async ({ window }) => {
    await expect(window.saying(/none was found/)).toBeVisible();
    for (const way of ["Open Settings", "Try Again", "Get Python"]) await expect(window.checkpoints.row(way)).toBeVisible();
    await expect(window.spinning).toHaveCount(0);
    await picture(window, "no-python");
});

test("a Python that is too old is named with its version", async ({ workbench, window }) => {
    program(workbench, "python3", "echo 3 9 0");
    await window.run("restartServer");
    await expect(window.saying(/Python 3\.9 is too old; Timeleap needs 3\.11/)).toBeVisible();
    await expect(window.checkpoints.row("Open Settings")).toBeVisible();
    await expect(window.notifications.saying(/too old/)).toHaveCount(0); // one box per problem
    await picture(window, "old-python");
});

test("without a server it is installed from what the extension brings, after asking, into an environment of its own", async ({ workbench, window }) => {
    test.slow();
    const python = await basePython();
    await fetchWheels(join(workbench.scratch, "wheels"));
    program(workbench, "python3", `exec "${python}" "$@"`);
    await window.clearNotifications();
    await window.run("restartServer");
    const welcome = window.welcome(/is not installed/);
    await expect(welcome).toBeVisible();
    await picture(window, "no-server");
    await welcome.getByRole("button", { name: "Install the Server" }).click();
    await expect(window.dialog.detail).toContainText(join(workbench.scratch, "bin", "python3"));
    await window.dialog.dismiss();
    expect(managed(workbench)).toEqual([]); // a question installs nothing

    await welcome.getByRole("button", { name: "Install the Server" }).click();
    await expect(window.dialog.root).toContainText("Install the Timeleap Server");
    await picture(window, "install");
    await window.dialog.press("Install the Timeleap Server");
    await expect(window.checkpoints.row(IMPORTS, 1)).toBeVisible({ timeout: 240_000 });
    expect(managed(workbench)).toHaveLength(1);
});

test("a server on the path is taken before the one of that environment", async ({ workbench, window }) => {
    const file = program(workbench, "timeleap", `exec "${PYTHON}" -m timeleap "$@"`);
    await window.run("restartServer");
    await expect.poll(() => served(file)).toBe(true);
    await expect(window.checkpoints.row(IMPORTS, 1)).toBeVisible();
});

for (const [name, setting] of [["Python", "python.standIn"], ["Python Environments", "python-envs.standIn"]] as const) {
    test(`the interpreter selected in the ${name} extension is taken before that`, async ({ workbench, window }) => {
        const file = program(workbench, setting, `exec "${PYTHON}" "$@"`);
        workbench.configure({ [setting]: file });
        await expect.poll(async () => {
            await window.run("restartServer");
            return served(file);
        }).toBe(true);
        await expect(window.checkpoints.row(IMPORTS, 1)).toBeVisible();
    });
}

for (const [script, said, button] of [
    ["exit 1", /does not run/, "Open Settings"],
    ["test \"$1\" = -I && echo 3 10 0", /too old/, "Open Settings"],
    ["test \"$1\" = -I && echo 3 12 0", /is not installed/, "Install the Server"],
] as const) {
    test(`an interpreter of the settings that cannot serve is not passed over: ${String(said)}`, async ({ workbench, window }) => {
        const file = program(workbench, "chosen", script);
        workbench.configure({ "timeleap.server.interpreter": file });
        await expect(window.saying(said).or(window.welcome(said)).first()).toBeVisible();
        await expect(window.checkpoints.row(button).or(window.welcome(said).getByRole("button", { name: button })).first()).toBeVisible();
        await expect(window.spinning).toHaveCount(0);
        // Settings that change twice before the workbench has read them have not changed for it.
        await expect(window.checkpoints.row(IMPORTS, 1)).toHaveCount(0);
        workbench.configure({});
        await expect(window.checkpoints.row(IMPORTS, 1)).toBeVisible();
    });
}

/** The environments that the extension has made. */
function managed(workbench: Workbench): string[] {
    const folder = join(workbench.scratch, "user/User/globalStorage/timeleap.timeleap");
    return existsSync(folder) ? readdirSync(folder).filter((name) => existsSync(join(folder, name, "installed"))) : [];
}
