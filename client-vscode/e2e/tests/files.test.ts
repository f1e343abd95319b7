import { expect, picture, test } from "../support/test";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Store } from "../support/store";
import type { Workbench } from "../support/workbench";

let number = 0;
let session = "";
const FIX = "Split it in cents";

const FIRST = "def split_bill(total: str, people: int) -> list[str]: ...\n";
const FIXED = "def split_bill(total: str, people: int) -> list[str]:\n    return shares(cents(total), people)\n";

/** A turn of an agent that changes a file, adds one and takes one away, with the files saved before it. */
async function agentsTurn(store: Store, workbench: Workbench, title: string): Promise<void> {
    const file = (name: string): string => join(workbench.folder, name);
    writeFileSync(file("split.py"), FIRST);
    writeFileSync(file("notes.txt"), "round half up\n");
    rmSync(file("cents.py"), { force: true });
    const agent = store.pipeline();
    await agent.call("initialize");
    await agent.call("session/open", { sessionId: session, title, workspace: pathToFileURL(workbench.folder).href, files: { mode: "checkpoint" } });
    await agent.call("context/checkpoint", { sessionId: session, label: FIX });
    await agent.call("context/appendMessage", { sessionId: session, message: { role: "user", content: "Count in cents." } });
    writeFileSync(file("split.py"), FIXED);
    writeFileSync(file("cents.py"), "def cents(total: str) -> int: ...\n");
    rmSync(file("notes.txt"));
    await agent.call("context/appendMessage", { sessionId: session, message: { role: "assistant", content: "It counts in cents now." } });
    await agent.close();
}

test.beforeAll(async ({ workbench }) => {
    await workbench.open();
});

test.beforeEach(async ({ window, store, workbench }) => {
    number += 1;
    session = `cents-${String(number)}`;
    const title = `Cents (${String(number)})`;
    await agentsTurn(store, workbench, title);
    await window.show();
    await window.openSession(title);
    await expect(window.checkpoints.row(FIX, 1)).toBeVisible();
});

/** What is in the workspace's folder of that turn. */
function found(workbench: Workbench): Record<string, string> {
    const names = ["split.py", "cents.py", "notes.txt"].filter((name) => existsSync(join(workbench.folder, name)));
    return Object.fromEntries(names.map((name) => [name, readFileSync(join(workbench.folder, name), "utf8")]));
}

const BEFORE = { "split.py": FIRST, "notes.txt": "round half up\n" };
const AFTER = { "split.py": FIXED, "cents.py": "def cents(total: str) -> int: ...\n" };

test("what changed stands under the checkpoint, and opens in the diff editor", async ({ window }) => {
    await window.checkpoints.expand(window.checkpoints.row(FIX, 1));
    await window.checkpoints.expand(window.checkpoints.row("Changed Files", 2));
    await expect.poll(() => window.checkpoints.texts(2)).toEqual(expect.arrayContaining(["cents.py", "notes.txt", "split.py"]));
    await expect(window.checkpoints.row("notes.txt", 2)).toHaveAccessibleName("File: notes.txt, deleted");
    await expect(window.checkpoints.row("cents.py", 2).locator(".codicon-diff-added")).toBeVisible();
    await window.checkpoints.row("split.py", 2).click();
    await expect(window.diff.before).toContainText("list[str]: ...");
    await expect(window.diff.after).toContainText("shares(cents(total), people)");
    await picture(window, "files");
    await window.closeEditors();
});

test("the conversation and the files go back together, and Undo brings both", async ({ window, store, workbench }) => {
    const before = store.log(session);
    await window.restore(window.checkpoints.row(FIX, 1));
    await window.notifications.look(/1 file put back, 1 file changed back, 1 file removed/);
    await picture(window, "revert-files");
    await expect.poll(() => store.messages(session)).toEqual([]);
    expect(found(workbench)).toEqual(BEFORE);
    await window.notifications.press(/Restored to before /, "Undo");
    await expect.poll(() => found(workbench)).toEqual(AFTER);
    await expect.poll(() => store.log(session)).toBe(before);
});

test("the files alone go back, and an editor that shows one follows", async ({ window, store, workbench }) => {
    const before = store.log(session);
    await window.checkpoints.expand(window.checkpoints.row(FIX, 1));
    await window.checkpoints.expand(window.checkpoints.row("Changed Files", 2));
    await window.checkpoints.row("split.py", 2).click();
    await expect(window.diff.after).toContainText("shares(cents(total), people)");
    await window.checkpoints.command(window.checkpoints.row(FIX, 1), window.texts.command("restoreWithOptions"), window.dialog.root);
    await window.dialog.press("Files Only");
    await expect.poll(() => found(workbench)).toEqual(BEFORE);
    await expect(window.diff.after).not.toContainText("shares(");
    await expect(window.checkpoints.row("Nothing found", 2)).toBeVisible();
    expect(store.log(session)).toBe(before);
    await window.closeEditors();
});

test("a file that a person changed after the turn is asked about, and stays when it is to be kept", async ({ window, workbench }) => {
    writeFileSync(join(workbench.folder, "split.py"), "# mine\n");
    await window.checkpoints.command(window.checkpoints.row(FIX, 1), window.texts.command("restore"), window.dialog.root);
    await expect(window.dialog.root).toContainText("Changed after the conversation's last message, by you or another program: 1 file.");
    await expect(window.dialog.root).toContainText("split.py");
    await window.dialog.press("Keep Mine");
    await expect.poll(() => found(workbench)).toEqual({ ...BEFORE, "split.py": "# mine\n" });
});

test("a D-Mail takes the files along to the checkpoint it is for", async ({ window, store, workbench }) => {
    const agent = store.pipeline();
    await agent.call("initialize");
    await agent.call("session/open", { sessionId: session, create: false });
    await agent.call("context/sendDMail", { sessionId: session, checkpointId: 0, message: "Leave the notes alone." });
    await agent.close();
    await window.checkpoints.command(window.checkpoints.row("Leave the notes alone.", 1), window.texts.command("deliverDMail"), window.quick.saying("Leave the notes alone."));
    await window.quick.choose("Leave the notes alone.", "Deliver");
    await window.notifications.look(/1 file put back, 1 file changed back, 1 file removed/);
    await expect(window.checkpoints.rows.locator(".codicon-mail-read").first()).toBeVisible(); // it has arrived
    await expect.poll(() => found(workbench)).toEqual(BEFORE);
    await window.notifications.press(/D-Mail delivered/, "Undo");
    await expect.poll(() => found(workbench)).toEqual(AFTER);
});
