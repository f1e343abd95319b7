import { OURS, throughMiddleman, expect, picture, test } from "../support/test";

const PAGE = 100;
const MANY = 10_000;

test.beforeAll(async ({ workbench, window, middleman }) => {
    workbench.configure(throughMiddleman(middleman)); // it counts what the extension asks for
    await workbench.open();
    await window.show();
    await window.closeEditors(); // a page of another file asks for more at a time
});

test.afterAll(({ workbench }) => {
    workbench.configure(OURS);
});

test("ten thousand checkpoints are asked for page by page, as somebody looks at them", async ({ window, store, middleman }) => {
    const since = Date.now();
    const log: string[] = [];
    for (let number = 0; number < MANY; number += 1) {
        log.push(JSON.stringify({ role: "_checkpoint", id: number }));
        log.push(JSON.stringify({ role: "user", content: `Step ${String(number)}: ${"look at the next file, ".repeat(8)}` }));
        log.push(JSON.stringify({ role: "_usage", token_count: 40 * (number + 1) }));
    }
    store.add("paged", `${log.join("\n")}\n`, { "state.json": JSON.stringify({ version: 1, custom_title: "A very long session" }) });
    await window.openSession("A very long session");
    await expect(window.checkpoints.row("Step 9999", 1)).toBeVisible();
    await window.checkpoints.expand(window.checkpoints.row("Step 9999", 1));
    await expect(window.checkpoints.row("Step 9999", 2)).toBeVisible();
    await window.checkpoints.collapse(window.checkpoints.row("Step 9999", 1));

    const more = window.checkpoints.row("Show More");
    for (let page = 1; page <= 3; page += 1) {
        await window.checkpoints.toTheEnd(more);
        await more.locator(".monaco-icon-label").click();
        await window.checkpoints.toTheEnd(window.checkpoints.row(`Step ${String(MANY - PAGE * (page + 1))}:`));
    }
    await picture(window, "long-session");

    const asked = ["context/listCheckpoints", "context/getHistory", "session/list"].flatMap((method) => middleman.asked(method, since));
    for (const { params } of asked) expect(params?.["limit"]).toBeLessThanOrEqual(PAGE);
    const pages = middleman.asked("context/listCheckpoints", since).filter(({ params }) => params?.["sessionId"] === "paged");
    const replies = middleman.passed(since).filter(({ from, kind }) => from === "server" && kind === "reply");
    const largest = Math.max(...replies.map(({ bytes }) => bytes));
    console.log(`  10 000 checkpoints: ${String(pages.length)} pages asked for, largest reply ${(largest / 1024).toFixed(0)} KiB`);
    expect(pages.length).toBeLessThanOrEqual(8);
    expect(largest).toBeLessThan(256 * 1024);
});
