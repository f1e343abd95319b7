import { OURS, expect, picture, sample, test } from "../support/test";
import { patiently } from "../window/patience";
import { serious } from "../window/axe";
import { ConversationPage } from "../window/conversation";
import type { Pipeline } from "../support/store";
import { DEFAULTS } from "../support/workbench";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

test.describe.configure({ mode: "serial" });

// An agent in another process owns the session; the page follows what it does.
let agent: Pipeline;
let page: ConversationPage;
/** Everything that the browser asked for. */
const requests: string[] = [];

test.beforeAll(async ({ workbench, store, window }) => {
    await window.page.setViewportSize({ width: 1680, height: 950 });
    window.page.on("request", (request) => requests.push(request.url()));
    agent = store.pipeline();
    await agent.call("initialize", { clientInfo: { name: "agent" } });
    const workspace = pathToFileURL(workbench.folder).href;
    await agent.replay("shares", sample(), { title: "Shares that add up", workspace });
    await workbench.open();
    await window.show();
    page = new ConversationPage(window.page);
});

test.afterAll(async ({ workbench, window }) => {
    await agent.close();
    workbench.configure(OURS);
    await window.page.setViewportSize(DEFAULTS.viewport);
});

test("a click on a session shows its conversation, at the newest message", async ({ window }) => {
    await window.openSession("Shares that add up");
    await window.run("openConversation");
    await page.shows("Shares that add up");
    await expect(page.row(31)).toContainText("Done. split_bill works in whole cents");
    await picture(window, "page");
});

test("a click on a checkpoint shows the conversation there", async ({ window }) => {
    await window.checkpoints.row("python -c", 1).locator(".monaco-icon-label").click();
    await expect(page.row(18)).toBeInViewport();
    await expect(page.frame.locator(".here")).toContainText("Checkpoint 5");
    await expect(page.row(31)).toHaveCount(0);
    const next = window.checkpoints.row(/^Write .*split\.py/, 1);
    await expect(next).toHaveAttribute("aria-selected", "false");
    await page.tool("Checkpoint After").click();
    await expect(next).toHaveAttribute("aria-selected", "true"); // the tree goes along
    await picture(window, "page-tree");
});

test("a call is a card with its result; an edit shows its lines, a failure its mark", async ({ window }) => {
    const edit = '{"path":"tally/split.py","old_string":"a = 1\\nb = 2\\n","new_string":"a = 1\\nb = 3\\n"}';
    await agent.call("context/checkpoint", { sessionId: "shares" });
    await agent.call("context/appendMessage", { sessionId: "shares", messages: [
        { role: "user", content: "Now **b** is to be 3:\n\n| name | value |\n| --- | --- |\n| b | `3` |" },
        { role: "assistant", content: [{ type: "think", think: "An edit will do." }, { type: "text", text: "I change it." }], tool_calls: [
            { type: "function", id: "e1", function: { name: "edit_file", arguments: edit } },
            { type: "function", id: "e2", function: { name: "run", arguments: '{"command":"pytest -q"}' } },
        ] },
        { role: "tool", content: "edited", tool_call_id: "e1" },
        { role: "tool", content: `${Array.from({ length: 60 }, (_, line) => `line ${String(line)}`).join("\n")}\nexit code: 1`, tool_call_id: "e2" },
    ] });
    await page.tool("Newest Message").click();
    const cards = page.row(33).locator(".card");
    await expect(cards).toHaveCount(2);
    await expect(cards.first().locator(".line.removed")).toHaveText(/b = 2/);
    await expect(cards.first().locator(".line.added")).toHaveText(/b = 3/);
    await expect(cards.last()).toHaveClass(/failed/);
    await expect(cards.last()).not.toContainText("line 9");
    await cards.last().getByRole("button", { name: "Show more (47)" }).click();
    await expect(cards.last()).toContainText("line 9");
    await cards.last().getByRole("button", { name: "Show less" }).click();
    await expect(page.row(34)).toHaveCount(0);
    await expect(page.row(32).locator("table")).toContainText("value");
    await picture(window, "page-calls");
});

test("who speaks is said once in a turn; output is as it was written, in its colours, and obeys no terminal", async ({ window }) => {
    const log = ["$ pytest -q", "E   assert  1 == 2", "# not a heading", "* not * a list *", ...Array.from({ length: 5_000 }, (_, line) => `2026-01-02 10:11:12 INFO line ${String(line)}`)];
    const said = `Why?\n\n${log.slice(0, 4).join("\n")}\n\nPlease mend it.`;
    await agent.call("session/open", { sessionId: "output", title: "Output" });
    await agent.call("context/appendMessage", { sessionId: "output", messages: [
        { role: "user", content: said },
        { role: "assistant", content: "I look.", tool_calls: [{ type: "function", id: "o1", function: { name: "run", arguments: '{"command":"pytest"}' } }] },
        { role: "tool", tool_call_id: "o1", content: "\u001b]0;title\u0007\u001b[31mFAILED\u001b[0m a.py \u001b]8;;https://harm.invalid\u001b\\link\u001b]8;;\u001b\\\u001b[2J" },
        { role: "assistant", content: "It is the rounding." },
        { role: "user", content: log.join("\n") },
        { role: "assistant", content: "I see." },
    ] });
    await window.openSession("Output");
    await window.run("openConversation");
    await page.shows("Output");
    await page.feed.press("Home");
    await expect(page.row(0).locator(".part pre")).toHaveText(log.slice(0, 4).join("\n"));
    await expect(page.row(0).locator(".text")).toHaveText(["Why?", "Please mend it."]);
    await expect(page.row(0).getByRole("button", { name: "Restore to Before This" })).toBeVisible();
    await expect(page.row(1).locator(".role")).toHaveText("Assistant");
    await expect(page.row(3).locator(".role")).toHaveCount(0);
    await expect(page.row(1).locator(".answer pre")).toHaveText("FAILED a.py link");
    await expect(page.row(1).locator(".answer .sgr-red")).toHaveText("FAILED");
    await picture(window, "page-output");
    await page.row(4).getByRole("button", { name: /^Show more \([\d,]+\)/ }).click();
    await expect(page.row(4)).toContainText("line 500");
    await window.openSession("Shares that add up");
    await window.run("openConversation");
    await expect(page.row(36)).toHaveCount(0);
});

test("what is written appears; back to before a message, and that undone, from the page", async ({ window, store }) => {
    await agent.call("context/appendMessage", { sessionId: "shares", message: { role: "assistant", content: "One more thing." } });
    await expect(page.row(36)).toContainText("One more thing.");
    const before = store.log("shares");
    await page.choose(32, "Restore to Before This");
    await expect(page.row(32)).toHaveCount(0);
    await expect(page.frame.getByRole("group", { name: /set aside/ })).toContainText("5 messages");
    await picture(window, "page-timelines");
    await page.tool("Undo").click();
    await expect(page.row(36)).toContainText("One more thing.");
    await expect.poll(() => store.log("shares")).toBe(before);
});

test("edit and go again: back to before the prompt, which is in the clipboard", async ({ window, store }) => {
    await window.page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await page.choose(32, "Edit and Go Again…");
    await expect(page.row(32)).toHaveCount(0);
    await expect.poll(() => store.messages("shares").length).toBe(32);
    await window.notifications.look(/The prompt is in the clipboard/);
    await page.tool("Undo").click();
    await expect(page.row(36)).toContainText("One more thing.");
});

test("search goes from match to match", async () => {
    await page.frame.getByRole("searchbox").fill("divmod");
    await expect(page.frame.locator(".count")).toHaveText(/^1 \/ \d+$/);
    await page.frame.getByRole("searchbox").press("Enter");
    await expect(page.frame.locator(".count")).toHaveText(/^2 \/ \d+$/);
    await page.frame.getByRole("searchbox").press("Escape");
});

test("what the search of the window finds is shown in its conversation", async ({ window }) => {
    await window.run("search");
    await window.quick.input.fill("FORGOT the imports");
    const hit = window.quick.options.filter({ hasText: "I forgot the imports" }).first();
    await hit.click();
    await expect(page.row(27)).toBeInViewport();
    const marked = page.feed.evaluate(() => [...(CSS.highlights.get("found") ?? [])].map(String));
    expect((await marked).map((text) => text.toLowerCase())).toContain("forgot the imports");
});

test("two checkpoints are compared", async ({ window }) => {
    await page.feed.press("Home");
    await page.tool("Checkpoint After").click();
    await page.tool("Checkpoint After").click();
    await page.tool("Compare from Here").click();
    await page.tool("Checkpoint After").click();
    await page.frame.getByRole("button", { name: /^Compare “/ }).click();
    const comparison = page.frame.getByRole("region", { name: / ↔ / });
    await expect(comparison).toContainText(/The same in both: \d+ messages/);
    await expect(comparison.locator(".side.added article").first()).toBeVisible();
    await picture(window, "page-compare");
    await comparison.press("Escape");
    await expect(comparison).toHaveCount(0);
});

test("with the keyboard alone: message by message, the menu, away again", async () => {
    await page.feed.press("End");
    await expect(page.row(36)).toBeFocused();
    await page.row(36).press("ArrowUp");
    await expect(page.row(33)).toBeFocused();
    await page.row(33).press("Enter");
    await expect(page.frame.getByRole("menuitem").first()).toBeFocused();
    await page.frame.getByRole("menuitem").first().press("ArrowDown");
    await expect(page.frame.getByRole("menuitem").nth(1)).toBeFocused();
    await page.frame.getByRole("menuitem").nth(1).press("Escape");
    await expect(page.frame.getByRole("menu")).toHaveCount(0);
});

test("after a reload of the window the page is there again, at the same message", async ({ window }) => {
    await window.checkpoints.expand(window.checkpoints.row("That is not fair", 1)); // an older turn
    await window.checkpoints.row("python -c", 1).locator(".monaco-icon-label").click();
    await expect(page.row(18)).toBeInViewport();
    await window.page.evaluate(() => Object.assign(globalThis, { old: true }));
    await window.quick.command("Developer: Reload Window");
    await window.page.waitForFunction(() => !("old" in globalThis));
    await page.shows("Shares that add up");
    await expect(page.row(18)).toBeInViewport();
    await expect(page.row(31)).toHaveCount(0);
    await expect(page.frame.locator(".here")).toContainText("Checkpoint 5");
    await page.choose(18, "Copy as Markdown");
});

test("what another program redacts leaves the page; a deleted session, too", async ({ window }) => {
    await agent.call("context/appendMessage", { sessionId: "shares", message: { role: "user", content: "the key is hunter2-hunter2-hunter2" } });
    await page.feed.press("End");
    await expect(page.row(37)).toContainText("hunter2-hunter2-hunter2");
    await agent.call("session/redact", { sessionId: "shares", value: "hunter2-hunter2-hunter2" });
    await expect(page.row(37)).toContainText("the key is");
    await expect(page.frame.locator("body")).not.toContainText("hunter2");
    await agent.call("session/delete", { sessionId: "shares" });
    await expect(page.frame.locator(".trouble")).toContainText("deleted");
    await expect(page.frame.locator("article")).toHaveCount(0);
    await picture(window, "page-deleted");
});

/** What somebody who means harm would write, or a model by mistake. */
const HOSTILE = [
    "<script>top.harm = 1</script><img src=x onerror='top.harm = 1'><iframe src='https://harm.invalid/frame'></iframe>",
    "![x](https://harm.invalid/picture.png) [click](javascript:top.harm=1) <https://harm.invalid/auto> [b](command:workbench.action.quit) [web](https://harm.invalid/link)",
    "<svg onload='top.harm=1'><style>body{display:none}</style></svg>\n\n<link rel=stylesheet href=https://harm.invalid/style.css>\n\n<base href=https://harm.invalid/>",
    "مرحبا بالعالم \u202Eevil txt\u202C \u0000 end",
    "[x]: https://harm.invalid/definition\n\n<details open ontoggle=top.harm=1>",
];

test("what messages hold is text: nothing runs, nothing is fetched, and all of it can be read", async ({ window, store }) => {
    const calls = Array.from({ length: 1_000 }, (_, at) => ({ type: "function", id: `c${String(at)}`, function: { name: "<b>run</b>", arguments: at === 0 ? '{"<img src=x onerror=top.harm=1>":"</script><script>top.harm=1</script>"}' : "{" } }));
    const image = (url: string): object => ({ type: "image_url", image_url: { url } });
    const red = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAgAAAAIAQMAAAD+wSzIAAAAA1BMVEX/AAAZ4gk3AAAAC0lEQVQI12NgwAcAABgAAcUCvnwAAAAASUVORK5CYII=";
    const records = [
        { role: "_checkpoint", id: 0 },
        ...HOSTILE.flatMap((content) => [{ role: "user", content }, { role: "assistant", content: [{ type: "think", think: content }, { type: "text", text: content }] }]),
        { role: "user", content: [image("https://harm.invalid/remote.png"), image("data:image/svg+xml,<svg onload='top.harm=1'/>"), image("data:image/png;base64,AAAA"), image(red), { type: "harm", html: "<script>top.harm=1</script>" }] },
        { role: "assistant", content: null, tool_calls: calls },
        { role: "tool", content: HOSTILE.join("\n"), tool_call_id: "c0" },
        { role: "<img src=x onerror=top.harm=1>", content: "an unknown role" },
        { role: "user", content: "x ".repeat(5 << 20) },
        { role: "user", content: "the end" },
    ];
    const errors: string[] = [];
    window.page.on("dialog", (dialog) => void dialog.dismiss().then(() => errors.push("a dialog")));
    store.add("hostile", records.map((record) => `${JSON.stringify(record)}\n`).join(""), { "state.json": JSON.stringify({ version: 1, custom_title: "<b>Harm</b>" }) });
    requests.length = 0;
    await window.openSession("<b>Harm</b>");
    await window.run("openConversation");
    await page.shows("<b>Harm</b>");
    await expect(page.row(15)).toContainText("the end");
    await expect(page.row(14)).toContainText("of 10,485,760 characters");
    await page.feed.press("Home");
    await expect(page.row(0)).toContainText("<script>top.harm = 1</script>");
    await expect(page.row(2)).toContainText("![x](https://harm.invalid/picture.png)");
    await expect(page.row(2).locator("a")).toHaveCount(2);
    await picture(window, "page-hostile");
    await page.reach(6);
    await expect(page.row(6)).toContainText("مرحبا بالعالم");
    await expect(page.row(6).locator(".text p")).toHaveCSS("direction", "rtl");
    await page.reach(10);
    await expect(page.row(10).locator("img")).toHaveCount(1);
    await expect(page.row(10)).toContainText("This cannot be shown.");
    await expect(page.row(10)).toContainText("https://harm.invalid/remote.png");
    await expect(page.row(10)).toContainText("<script>top.harm=1</script>"); // a part of a type that nobody knows
    await page.reach(11);
    await expect(page.row(11).locator(".card")).toHaveCount(30);
    await page.frame.getByRole("button", { name: "Show more (970)" }).click();
    await expect(page.row(11).locator(".card")).toHaveCount(1_000);
    const harm = await Promise.all(window.page.frames().map((frame) => frame.evaluate(() => (top as { harm?: unknown } | null)?.harm)));
    expect(harm.filter((found) => found !== undefined)).toEqual([]);
    expect(requests.filter((url) => url.includes("harm.invalid"))).toEqual([]);
    expect(errors).toEqual([]);
});

const MANY = 10_000;

test("ten thousand checkpoints: painted, gone to and scrolled through with a few rows", async ({ window, store }) => {
    store.addLong(MANY);
    await window.openSession("A long session");
    const devtools = await window.page.context().newCDPSession(window.page);
    const heap = async (): Promise<number> => {
        await devtools.send("HeapProfiler.collectGarbage");
        return (await devtools.send("Runtime.getHeapUsage")).usedSize / (1 << 20);
    };
    await window.closeEditors();
    const before = await heap();
    const row = window.checkpoints.row("Step 9990", 1);
    await expect(row).toBeVisible();
    const clicked = Date.now();
    await row.locator(".monaco-icon-label").click();
    await expect(page.row(19_980)).toBeVisible();
    const painted = Date.now() - clicked;
    await expect(page.frame.locator(".facts").first()).toContainText("10,000 checkpoints");
    await expect(page.frame.locator(".here")).toContainText("Checkpoint");
    const jumps: number[] = [];
    for (const number of [12, 9_000, 5_000, 777, 3_333]) {
        const from = Date.now();
        await page.frame.getByRole("slider").fill(String(number * 2));
        await expect(page.row(number * 2)).toContainText(`Step ${String(number)}:`);
        jumps.push(Date.now() - from);
    }
    for (let turn = 0; turn < 40; turn += 1) await page.feed.evaluate((feed) => feed.scrollBy(0, 2_000));
    expect(await page.frame.locator("article").count()).toBeLessThan(60);
    await page.feed.press("Home");
    await expect(page.row(0)).toContainText("Step 0:");
    await page.feed.press("End");
    await expect(page.row(MANY * 2 - 1)).toContainText(`Answer ${String(MANY - 1)}.`);
    const after = await heap();
    console.log(`  page of 10 000 checkpoints: painted ${String(painted)} ms after the click, jumps ${jumps.join(", ")} ms, ${(after - before).toFixed(1)} MB`);
    expect(after - before).toBeLessThan(150);
});

/** The contrast of the slider's thumb, which axe does not look at, with what is behind it. */
function thumbContrast(slider: HTMLElement): number {
    const light = (colour: string): number => {
        const [red = 0, green = 0, blue = 0] = (colour.match(/[\d.]+/g) ?? []).slice(0, 3).map((part) => {
            const share = Number(part) / 255;
            return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05;
    };
    const [thumb, behind] = [light(getComputedStyle(slider).accentColor), light(getComputedStyle(document.body).backgroundColor)];
    return Math.max(thumb, behind) / Math.min(thumb, behind);
}

const THEMES = ["Default Dark Modern", "Default Light Modern", "Default High Contrast", "Default High Contrast Light"];

for (const theme of THEMES) {
    test(`nothing serious for those who hear the page or need contrast: ${theme}`, async ({ window, workbench, store }) => {
        const named = `axe ${theme}`;
        const session = named.replaceAll(" ", "-");
        const helper = store.pipeline();
        await helper.call("initialize", { clientInfo: { name: "agent" } });
        const question = `${theme}: guests complain`; // so that no row is taken for one of the session before
        await helper.replay(session, sample().replaceAll("Guests complain", question), { title: named });
        await helper.call("context/revertTo", { sessionId: session, checkpointId: 6 });
        await helper.call("context/sendDMail", { sessionId: session, checkpointId: 0, message: "Look at the cents." });
        await helper.call("session/open", { sessionId: session, files: { mode: "checkpoint", roots: [pathToFileURL(workbench.folder).href] } });
        await helper.call("context/checkpoint", { sessionId: session });
        writeFileSync(join(workbench.folder, "cents.txt"), `${theme}\n`);
        await helper.call("context/appendMessage", { sessionId: session, messages: [{ role: "user", content: "Count in cents." }, { role: "assistant", content: "I count." }] });
        void helper.call("approval/request", { sessionId: session, action: "run command", description: `pytest ${"-q ".repeat(200)}` }).catch(() => undefined);
        workbench.configure({ ...OURS, "workbench.colorTheme": theme });
        await expect(window.page.locator(".monaco-workbench")).toHaveClass(theme.includes("Contrast") ? /hc-/ : theme.includes("Dark") ? /vs-dark/ : /(^| )vs( |$)/);
        await window.openSession(named);
        await expect(window.checkpoints.row("Approval needed", 1)).toBeVisible();
        await window.checkpoints.expand(window.checkpoints.row(question, 1).last()); // an older turn; a note is named after it
        await window.checkpoints.expand(window.checkpoints.row("python -m pytest", 1).first());
        // The turn is drawn anew when its files are known, and may be folded by that.
        await patiently(async () => {
            await window.checkpoints.expand(window.checkpoints.row("Count in cents", 1));
            await expect(window.checkpoints.row("Changed Files", 2)).toBeVisible({ timeout: 4000 });
        });
        await window.checkpoints.expand(window.checkpoints.row("Changed Files", 2));
        await expect(window.checkpoints.row("cents.txt", 2)).toBeVisible();
        const found = (await serious(window.page.mainFrame(), { within: ".part.sidebar .pane-body", rules: ["color-contrast"] })).map((one) => `views: ${one}`);
        await window.run("openConversation");
        await page.shows(named);
        await expect(page.frame.locator("article").first()).toBeVisible();
        const frame = window.page.frames().find((one) => one.name() === "active-frame" || one.url().includes("fake.html"));
        if (!frame) throw new Error("there is no page");
        const look = async (state: string): Promise<void> => void found.push(...(await serious(frame)).map((one) => `${state}: ${one}`));
        await page.frame.getByRole("button", { name: /cents\.txt/ }).first().click();
        await expect(page.frame.locator(".files .line.added").first()).toBeVisible();
        await look("the newest message, a changed file");
        await picture(window, `page-${theme.replace("Default ", "").replace(" Modern", "").replaceAll(" ", "-").toLowerCase()}`);
        await page.feed.press("Home");
        await page.frame.locator(".thought summary").first().click();
        await page.frame.getByRole("searchbox").fill("split");
        await expect(page.frame.locator(".count")).toHaveText(/^1 \//);
        await look("the oldest message, a thought, a search");
        await page.frame.getByRole("searchbox").fill("");
        await page.feed.press("Home");
        await page.row(0).locator(".row-head").hover();
        await page.row(0).locator(".more").last().click();
        await look("a menu");
        await page.frame.getByRole("menuitem").first().press("Escape");
        await page.tool("Checkpoint After").click();
        await page.tool("Compare from Here").click();
        await page.tool("Checkpoint After").click();
        await page.frame.getByRole("button", { name: /^Compare “/ }).click();
        await expect(page.frame.getByRole("region", { name: / ↔ / })).toBeVisible();
        await look("a comparison");
        await page.frame.getByRole("region", { name: / ↔ / }).press("Escape");
        await window.run("manageApprovals");
        await window.quick.choose("Approvals:", "Approval needed:");
        await window.quick.choose(/asks for your approval: run command/, "Show All and Decide…");
        await expect(page.over.locator("pre")).toContainText("pytest");
        await look("something to read");
        await window.quick.close();
        await page.over.press("Escape");
        await page.frame.locator(".lane").nth(1).click();
        await expect(page.tool("Show the Present")).toBeVisible();
        await look("a timeline");
        expect(found).toEqual([]);
        expect(await page.frame.getByRole("slider").evaluate(thumbContrast)).toBeGreaterThanOrEqual(3);
        await helper.call("session/delete", { sessionId: session });
        await expect(page.frame.locator(".trouble")).toContainText("deleted");
        await look("a session that is gone");
        expect(found).toEqual([]);
        await helper.close();
    });
}
