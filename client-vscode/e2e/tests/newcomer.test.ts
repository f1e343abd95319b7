import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { VSIX, expect, picture, test } from "../support/test";
import { basePython, fetchWheels } from "../support/wheels";

// A machine with a Python, without a server of Timeleap, on which Claude Code has been used in the folder that is open.
const SETTINGS = '{ "model": "opus" }\n';
const CONVERSATION = "3f2a8a52-5b1f-4c6e-9a30-5d6cf0a7b001";

test.use({
    setup: {
        extensions: [VSIX],
        settings: {},
        viewport: { width: 1_180, height: 720 },
        environment: (scratch) => {
            used(join(scratch, "home", ".claude"), join(scratch, "tally"));
            mkdirSync(join(scratch, "bin"));
            return { PATH: join(scratch, "bin"), PIP_NO_INDEX: "1", PIP_FIND_LINKS: join(scratch, "wheels") };
        },
    },
});
test.describe.configure({ mode: "serial" });

/** Leave there what Claude Code would. */
function used(own: string, cwd: string): void {
    const said = [
        ["user", "The shares of a bill do not add up to its total. Find out why."],
        ["assistant", "Each share is rounded by itself. I give the remainder to the first guests."],
        ["user", "Add a test with 100.00 split three ways."],
        ["assistant", "Done: the shares are 33.34, 33.33 and 33.33."],
    ] as const;
    const uuid = (number: number): string => `00000000-0000-4000-8000-${String(number).padStart(12, "0")}`;
    const records = said.map(([role, text], number) => ({
        parentUuid: number === 0 ? null : uuid(number - 1),
        isSidechain: false,
        type: role,
        uuid: uuid(number),
        sessionId: CONVERSATION,
        cwd,
        version: "2.1.330",
        timestamp: new Date(Date.now() - 60_000 * (said.length - number)).toISOString(),
        message: role === "user" ? { role, content: text } : { role, id: `msg_${String(number)}`, content: [{ type: "text", text }] },
    }));
    const folder = join(own, "projects", "-tally");
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(own, "settings.json"), SETTINGS);
    writeFileSync(join(folder, `${CONVERSATION}.jsonl`), records.map((record) => `${JSON.stringify(record)}\n`).join(""));
}

test("three clicks from an empty view to one's own conversation, the server's installation among them", async ({ workbench, window }) => {
    test.slow();
    await fetchWheels(join(workbench.scratch, "wheels"));
    writeFileSync(join(workbench.scratch, "bin", "python3"), `#!/bin/sh\nexec "${await basePython()}" "$@"\n`, { mode: 0o755 });
    await workbench.open();
    const begun = Date.now();
    await window.icon.click();
    const connect = window.page.locator(".part.sidebar").getByRole("button", { name: "Connect Claude Code" });
    await expect(connect).toBeVisible();
    await expect(window.page.locator(".part.sidebar").getByRole("button", { name: "Connect Codex" })).toHaveCount(0); // it is not there
    await picture(window, "walkthrough-connect");

    await connect.click();
    await expect(window.dialog.root).toContainText("Connect Claude Code?");
    await expect(window.dialog.detail).toContainText(".claude");
    await expect(window.dialog.detail).toContainText("The Timeleap server is installed first.");
    await picture(window, "connect");
    await window.dialog.press("Connect");

    await expect(window.checkpoints.row("Add a test with 100.00", 1)).toBeVisible({ timeout: 240_000 });
    test.info().annotations.push({ type: "seconds to one's own conversation", description: String((Date.now() - begun) / 1_000) });
    await expect.poll(() => settings(workbench.scratch)).toContain("hook claude-code");
    await expect(window.tabs.first()).toBeVisible();
});

test("disconnecting leaves the settings of Claude Code as they were", async ({ workbench, window }) => {
    await window.run("connect");
    await window.quick.choose("Connect or disconnect which agent?", "Claude Code");
    await expect(window.dialog.root).toContainText("Disconnect Claude Code?");
    await window.dialog.press("Disconnect");
    await expect.poll(() => settings(workbench.scratch)).toBe(SETTINGS);
    await expect(window.checkpoints.row("Add a test with 100.00", 1)).toBeVisible(); // what was read stays
});

test("a sample is there to try things on: looked at, restored, undone", async ({ window }) => {
    await window.manage("Add a test with 100.00", "Close Session");
    await window.closeEditors();
    const sample = window.page.locator(".part.sidebar").getByRole("button", { name: "Try It with a Sample Conversation" });
    await sample.click();
    await expect(window.header).toContainText("Sample Conversation");
    await picture(window, "walkthrough-sample");
    const row = window.checkpoints.rows.nth(2);
    const name = ((await row.textContent()) ?? "").trim();
    await row.click();
    await picture(window, "walkthrough-look");
    await window.restore(row);
    await picture(window, "walkthrough-restore");
    await window.run("undo");
    await expect(window.checkpoints.rows.nth(2)).toContainText(name.slice(0, 12));
    await picture(window, "walkthrough-undo");
});

test("the walkthrough has five steps, with a picture each", async ({ window }) => {
    await window.quick.command("View: Toggle Primary Side Bar Visibility");
    await window.quick.command("Welcome: Open Walkthrough...");
    await window.quick.choose("Select a walkthrough to open", "Travel in time with Timeleap");
    const walkthrough = window.page.locator(".gettingStartedContainer");
    const steps = { connect: "Connect your agent", sample: "Or try a sample", look: "Look at each step", restore: "Restore", undo: "Undo" };
    for (const [name, title] of Object.entries(steps)) {
        await walkthrough.getByRole("button", { name: title }).first().click();
        const image = walkthrough.locator(".getting-started-media img"); // hidden where the editor is narrow
        await expect(image).toHaveAttribute("srcset", new RegExp(`walkthrough-${name}\\.png`));
        await expect.poll(() => image.evaluate((element) => (element as { naturalWidth?: number }).naturalWidth ?? 0)).toBeGreaterThan(0);
    }
    await picture(window, "walkthrough");
    await window.closeEditors();
});

function settings(scratch: string): string {
    return readFileSync(join(scratch, "home", ".claude", "settings.json"), "utf8");
}
