import { PYTHON } from "../support/places";
import { VSIX, expect, picture, sample, test } from "../support/test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

// A machine on which no Python is found unless a test puts one there.
const machine = mkdtempSync(join(tmpdir(), "tl-bare-"));
const programs = join(machine, "bin");
mkdirSync(programs, { recursive: true });

test.use({ setup: { extensions: [VSIX], settings: {}, environment: () => ({ PATH: programs }) } });

test.afterAll(() => {
    rmSync(machine, { recursive: true, force: true });
});

function program(name: string, script: string): void {
    writeFileSync(join(programs, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
}

test("without Python the view says so and what to do", async ({ workbench, window }) => {
    await workbench.open();
    await window.show();
    const welcome = window.welcome(/none was found/);
    await expect(welcome).toBeVisible();
    await expect(welcome.getByRole("button", { name: "Choose an Interpreter" })).toBeVisible();
    await expect(window.page.locator(".part.sidebar .monaco-progress-container.active")).toHaveCount(0);
    await picture(window, "no-python");
});

test("a Python that is too old is named with its version", async ({ window }) => {
    program("python3", "echo 3 9 0");
    await window.run("restartServer");
    await expect(window.welcome(/too old/)).toContainText("3.11");
    await picture(window, "old-python");
});

test("a server that comes onto the path is found", async ({ workbench, store, window }) => {
    const workspace = pathToFileURL(workbench.folder).href;
    await store.replay("found", sample(), { title: "Found", workspace });
    program("timeleap", `exec "${PYTHON}" -m timeleap "$@"`);
    await window.run("restartServer");
    await expect(window.checkpoints.row("I forgot the imports", 1)).toBeVisible();
});
