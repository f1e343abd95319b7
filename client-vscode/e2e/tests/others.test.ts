import { expect, picture, sample, test, IMPORTS, SECOND_BUG } from "../support/test";
import { ConversationPage } from "../window/conversation";
import { lives, until } from "../support/process";
import type { Pipeline } from "../support/store";
import { Texts } from "../support/texts";
import { Window } from "../window/window";
import { pathToFileURL } from "node:url";

// What others do to a session while this window shows it, in its rows and as a page.
const SECRET = "hunter2-hunter2-hunter2";
const LAST = 31;

let number = 0;
let session = "";
let title = "";
let page: ConversationPage;
let agent: Pipeline;

test.beforeAll(async ({ workbench }) => {
    await workbench.open();
});

// The agent owns the session; the window joins it, and shows it as a page.
test.beforeEach(async ({ workbench, window, store }) => {
    number += 1;
    session = `others-${String(number)}`;
    title = `Worked on by others (${String(number)})`;
    agent = store.pipeline();
    await agent.call("initialize", { clientInfo: { name: "agent" } });
    await agent.replay(session, sample(), { title, workspace: pathToFileURL(workbench.folder).href });
    await window.show();
    await window.openSession(title);
    await expect(window.checkpoints.row(IMPORTS, 1)).toBeVisible();
    await window.clearNotifications();
    await window.run("openConversation");
    page = new ConversationPage(window.page);
    await page.shows(title);
    await expect(page.row(LAST)).toBeVisible();
});

test.afterEach(async ({ window }) => {
    await agent.close();
    await window.closeEditors();
});

/** An agent's request about the session. */
function asks<Result>(method: string, params: Record<string, unknown> = {}): Promise<Result> {
    return agent.call<Result>(method, { sessionId: session, ...params });
}

test("another program's going back is told, with Undo; rows, page, and a search with its marks follow both", async ({ window, store }) => {
    const count = page.frame.locator(".count");
    const found = async (): Promise<number> => Number(/\d+$/.exec(await count.innerText())?.[0]);
    await page.frame.getByRole("searchbox").fill("split");
    await expect(count).toHaveText(/^1 \/ \d+$/);
    const [before, hits] = [store.log(session), await found()];
    await asks("context/revertTo", { checkpointId: 5 });
    await expect(window.checkpoints.row(SECOND_BUG, 1)).toHaveCount(0);
    await expect(page.row(LAST)).toHaveCount(0);
    await expect(count).toHaveText(/^[\d–]+ \/ \d+$/);
    await expect.poll(found).toBeGreaterThanOrEqual(hits); // what was set aside is found there
    const marks = (): Promise<number> => page.feed.evaluate(() => [...(CSS.highlights.get("found") ?? [])].filter((range) => String(range as Range).toLowerCase() === "split" && range.startContainer.isConnected).length);
    await expect.poll(marks).toBeGreaterThan(0);
    await window.notifications.look(`agent changed “${title}”: 14 messages`);
    await picture(window, "others-revert");
    await window.notifications.press(`agent changed “${title}”`, "Undo");
    await expect(window.checkpoints.row(SECOND_BUG, 1)).toBeVisible();
    await page.feed.press("End");
    await expect(page.row(LAST)).toBeInViewport();
    await expect.poll(() => store.log(session)).toBe(before);
});

test("Undo is of the session it was offered for, and shows it, whichever is shown by then", async ({ window, store }) => {
    const elsewhere = `${title}, not touched`;
    await store.replay(`${session}-untouched`, sample(), { title: elsewhere });
    const [before, untouched] = [store.log(session), store.log(`${session}-untouched`)];
    await asks("context/revertTo", { checkpointId: 5 });
    await window.notifications.look(`agent changed “${title}”`);
    await window.openSession(elsewhere);
    await window.notifications.press(`agent changed “${title}”`, "Undo");
    await expect.poll(() => store.log(session)).toBe(before);
    await expect(window.header).not.toContainText(elsewhere);
    await expect(window.header).toContainText(title);
    expect(store.log(`${session}-untouched`)).toBe(untouched);
});

test("another program's compaction and clearing are told, with Undo", async ({ window, store }) => {
    const before = store.log(session);
    await asks("context/compact");
    await expect(window.checkpoints.row("compacted", 1)).toBeVisible();
    await expect(page.row(0)).toContainText("compacted");
    await window.notifications.look(`agent changed “${title}”: `);
    await picture(window, "others-compact");
    await window.notifications.press(`agent changed “${title}”`, "Undo");
    await expect(window.checkpoints.row(IMPORTS, 1)).toBeVisible();
    await asks("context/clear");
    await expect(page.feed.getByRole("article")).toHaveCount(0);
    await window.notifications.press(`agent changed “${title}”`, "Undo");
    await expect(window.checkpoints.row(IMPORTS, 1)).toBeVisible();
    await expect.poll(() => store.log(session)).toBe(before);
});

test("four windows on one session: what one of them does is told in the others as that, and undone from another", async ({ window, workbench, store }) => {
    const before = store.log(session);
    const folder = new URLSearchParams({ folder: workbench.folder }).toString();
    const others = await Promise.all([1, 2, 3].map(async () => {
        const other = new Window(await window.page.context().newPage(), new Texts());
        await other.page.goto(`${workbench.address}/?${folder}`);
        await other.show();
        await other.openSession(title);
        await expect(other.checkpoints.row(SECOND_BUG, 1)).toBeVisible();
        return other;
    }));
    const [second, ...rest] = others as [Window, ...Window[]];
    await second.restore(second.checkpoints.row(SECOND_BUG, 1));
    await second.notifications.look(/Restored to before /);
    await expect(second.notifications.saying(/Another window/)).toHaveCount(0);
    for (const other of [window, ...rest]) {
        await expect(other.checkpoints.row(SECOND_BUG, 1)).toHaveCount(0);
        await other.notifications.look(`Another window changed “${title}”: 14 messages`);
    }
    await expect(page.row(LAST)).toHaveCount(0);
    await window.notifications.press(`Another window changed “${title}”: 14 messages`, "Undo");
    for (const one of [window, ...others]) await expect(one.checkpoints.row(SECOND_BUG, 1)).toBeVisible();
    await expect.poll(() => store.log(session)).toBe(before);
    await Promise.all(others.map((other) => other.page.close()));
});

test("a server that is killed under an open page: what is read stays, and goes on with the next server", async ({ window, store }) => {
    await agent.close();
    await until("the window owns the session", async () => {
        await store.call("session/get", { sessionId: session }).catch(() => undefined);
        return store.owner(session) !== undefined && lives(store.owner(session) ?? 0);
    });
    await window.ask("createCheckpoint", "Name; it may be empty", "mine now");
    await expect(window.checkpoints.row("mine now", 1)).toBeVisible();
    process.kill(store.owner(session) ?? 0, "SIGKILL");
    await expect(window.saying(/was started again at/)).toBeVisible();
    await expect(page.row(LAST)).toBeVisible();
    await picture(window, "page-recovered");
    await store.call("context/appendMessage", { sessionId: session, message: { role: "user", content: "Are you still there?" } });
    await expect(page.row(LAST + 1)).toContainText("Are you still there?");
    await page.choose(LAST + 1, "Restore to Before This");
    await expect(page.row(LAST + 1)).toHaveCount(0);
});

test("what is redacted leaves the page at once, also of what was set aside, and while another session is shown", async ({ window, store }) => {
    const elsewhere = `${title}, and another`;
    await store.replay(`${session}-shown`, sample(), { title: elsewhere });
    await asks("context/checkpoint", { label: "the key" });
    await asks("context/appendMessage", { message: { role: "user", content: `the key is ${SECRET}` } });
    await asks("context/revertTo", { checkpointId: 5 });
    await page.frame.locator(".lane").nth(1).click();
    await page.feed.press("End");
    await expect(page.feed).toContainText(SECRET);
    await window.openSession(elsewhere);
    await expect(page.feed).toContainText(SECRET);
    await asks("session/redact", { value: SECRET });
    await expect(page.frame.locator("body")).not.toContainText(SECRET);
    await expect(page.feed).toContainText("the key is");
    await picture(window, "redact-after");
    expect(store.log(session)).not.toContain(SECRET);
});

test("a comparison, and what is read above the conversation, go with what is redacted", async ({ window }) => {
    await asks("context/checkpoint", { label: "the key" });
    await asks("context/appendMessage", { message: { role: "user", content: `the key is ${SECRET}` } });
    await window.compare(window.checkpoints.row("the key", 1), "Present", page.over);
    await expect(page.side("added")).toContainText(SECRET);
    await asks("session/redact", { value: SECRET });
    await expect(page.over).toBeHidden();
    await expect(page.frame.locator("body")).not.toContainText(SECRET);
});
