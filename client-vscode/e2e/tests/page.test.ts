/** The HTML page that a session is exported to, in a browser, from a file. No workbench is needed. */
import { type Locator, type Page, expect, test as base } from "@playwright/test";
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { NODE, ROOT, SAMPLE_SESSION, chromium } from "../support/places";
import { run } from "../support/process";
import { type Pipeline, Store } from "../support/store";

const folder = mkdtempSync(join(tmpdir(), "tl-page-"));
const store = new Store(join(folder, "home"), { ...process.env, TIMELEAP_HOME: join(folder, "home") });
const LONG = 10_000;
let pipeline: Pipeline;

const HOSTILE = [
    "</script><script>window.pwned = 1</script>",
    "<img src=x onerror='window.pwned = 2'><svg onload='window.pwned = 3'></svg>",
    "<a href='javascript:window.pwned = 4'>click</a> [click](javascript:window.pwned=5)",
    "<!--<script> <style>body { display: none }</style> <iframe srcdoc='<script>parent.pwned = 6</script>'></iframe>",
    "<link rel=stylesheet href=http://127.0.0.1:9/x.css><meta http-equiv=refresh content='0;url=http://127.0.0.1:9/'>",
];

const MARKDOWN = `## Plan

| call | result |
|---|---|
| \`sum()\` | 114 |

It is **not** done; see [the page](https://example.org/), [bad](javascript:alert(1)) and ![a picture](https://example.org/x.png).

3. outer
   - inner
4. next

\`\`\`python
print(1)
\`\`\`

> first
> second

<b>as it is</b>`;

const called = (id: string, name: string, given: string): object => ({ id, type: "function", function: { name, arguments: given } });
const numbered = (word: string, count: number): string => Array.from({ length: count }, (_, line) => `${word} ${line}`).join("\n");

const CALLS = [
    { role: "user", content: "Split the bill." },
    {
        role: "assistant",
        content: "I change it and look.",
        tool_calls: [
            called("edit", "edit_file", JSON.stringify({
                path: "src/tally.py",
                old_string: "def split(total, guests):\n    return total / guests\n",
                new_string: "def split(total, guests):\n    share, rest = divmod(total, guests)\n    return share, rest\n",
            })),
            called("run", "run", '{"command": "pytest -q", "timeout": 12345678901234567890}'),
            called("list", "list_files", '{"path": "src"}'),
            called("broken", "write_file", '{"path": "cut off'),
        ],
    },
    { role: "tool", tool_call_id: "edit", content: "ok" },
    { role: "tool", tool_call_id: "run", content: `${numbered("line", 60)}\n3 failed, 4 passed` },
    { role: "tool", tool_call_id: "list", content: numbered("file", 41) },
    { role: "tool", tool_call_id: "broken", content: numbered("kept", 40) },
    { role: "tool", tool_call_id: "nobody asked", name: "lost and found", content: "Error: nobody asked" },
    { role: "assistant", content: "", tool_calls: Array.from({ length: 1_000 }, (_, at) => called(`many ${at}`, "step", JSON.stringify({ name: `step ${at}` }))) },
];

/** Every test's page must ask for nothing but itself, and nothing may go wrong in it. */
const test = base.extend<{ asked: string[]; open: (sessionId: string, hash?: string) => Promise<Page> }>({
    asked: async ({ context }, use) => {
        const asked: string[] = [];
        context.on("request", (request) => asked.push(request.url()));
        await use(asked);
        expect(asked.filter((url) => !url.startsWith(pathToFileURL(folder).href) && !url.startsWith("data:"))).toEqual([]);
    },
    open: async ({ page, asked }, use) => {
        const wrong: string[] = [];
        page.on("pageerror", (error) => wrong.push(error.message));
        page.on("console", (said) => wrong.push(said.text()));
        page.on("dialog", (dialog) => wrong.push(dialog.message()));
        await use(async (sessionId, hash = "") => {
            await page.goto(`${pathToFileURL(file(sessionId)).href}${hash}`);
            await expect(page.locator("#heading")).toBeVisible();
            expect(asked).toHaveLength(1);
            return page;
        });
        expect(wrong).toEqual([]);
    },
});

test.use({ launchOptions: { executablePath: chromium() }, viewport: { width: 1360, height: 860 }, locale: "en-US", timezoneId: "UTC" });

interface Checkpoint {
    uid: string;
    messageCount: number;
    tokenCount: number;
}
interface Listed {
    checkpoints: Checkpoint[];
}
interface Difference {
    common: number;
    removed: unknown[];
    added: unknown[];
    tokens: { from: number; to: number };
}

test.beforeAll(async () => {
    pipeline = store.pipeline();
    await pipeline.call("initialize", { initializationOptions: { durability: "os" } });
    const change = (method: string, params: Record<string, unknown>): Promise<unknown> => pipeline.call(method, { sessionId: "tally", ...params });
    await pipeline.replay("tally", readFileSync(SAMPLE_SESSION, "utf8"), { title: "Shares that add up" });
    await change("context/revertTo", { checkpointId: 6 });
    await change("context/checkpoint", { label: "Share the rest out" });
    await change("context/appendMessage", { messages: [user("Hand out what is left cent by cent."), answer("Then the first guests pay one cent more.")] });
    await change("context/updateTokenCount", { tokenCount: 5_300 });
    await change("context/checkpoint", {});
    await change("context/appendMessage", { messages: [user("That is fine."), answer("Then I write it that way:\n\n```python\nshare + (place < rest)\n```")] });
    await change("context/updateTokenCount", { tokenCount: 5_900 });
    await change("context/revertTo", { checkpointId: 7 });
    await change("context/appendMessage", { messages: [user("No: nobody shall pay more than another.")] });
    await change("context/compact", { summarizer: "builtin" });
    await change("context/restoreTimeline", { timelineId: "context_2" });
    await change("context/checkpoint", { label: "Ready to release" });
    await change("context/appendMessage", { messages: [user("Release it."), calling("publish")] });
    await change("context/checkpoint", {});
    await change("context/appendMessage", { messages: [{ role: "tool", tool_call_id: "publish", content: "tally 1.4.0 is out" }, answer("Released.")] });
    await change("context/updateTokenCount", { tokenCount: 6_400 });
    await pipeline.call("session/open", { sessionId: "calls" });
    await pipeline.call("context/appendMessage", { sessionId: "calls", messages: CALLS });
    await pipeline.call("session/open", { sessionId: "hostile", title: HOSTILE[0], systemPrompt: HOSTILE[1] });
    for (const [index, text] of HOSTILE.entries()) {
        await pipeline.call("context/checkpoint", { sessionId: "hostile", label: text });
        const call = { id: text, type: "function", function: { name: text, arguments: JSON.stringify({ [text]: text }) } };
        const image = { type: "image_url", image_url: { url: index % 2 === 0 ? "http://127.0.0.1:9/spy.png" : `data:image/svg+xml,${text}` } };
        const messages = [
            { role: "user", content: text, name: text },
            { role: "assistant", content: [{ type: "text", text }, { type: "think", think: text }, image, { type: text, [text]: text }], tool_calls: [call] },
            { role: "tool", tool_call_id: text, content: text },
        ];
        await pipeline.call("context/appendMessage", { sessionId: "hostile", messages });
    }
    store.add("long", long());
    await pipeline.call("session/open", { sessionId: "markdown" });
    await pipeline.call("context/appendMessage", { sessionId: "markdown", messages: [user(MARKDOWN), answer("*a* ".repeat(10_000))] });
    for (const sessionId of ["tally", "calls", "hostile", "long", "markdown"]) {
        await pipeline.call("session/export", { sessionId, format: "html", path: file(sessionId) });
    }
});

test.afterAll(async () => {
    await pipeline.close();
    rmSync(folder, { recursive: true, force: true });
});

test("a type checker finds nothing wrong with the page's script", async () => {
    const assets = join(ROOT, "server/timeleap/features/transfer/assets");
    const scripts = readdirSync(assets).filter((name) => name.endsWith(".js") && !name.endsWith(".min.js"));
    const how = "--noEmit --allowJs --checkJs --strict --noImplicitAny false --target es2023 --lib es2023,dom,dom.iterable --moduleDetection legacy";
    const tsc = join(ROOT, "client-vscode/e2e/node_modules/typescript/bin/tsc");
    const given = [tsc, ...how.split(" "), ...scripts];
    const said = await run(NODE, given, process.env, assets).catch((error: unknown) => (error as { stdout: string }).stdout);
    expect(said).toBe("");
});

test("slider and keys go through the checkpoints, and the conversation is what it was", async ({ open }) => {
    const page = await open("tally");
    const { checkpoints } = await pipeline.call<Listed>("context/listCheckpoints", { sessionId: "tally", order: "asc" });
    const slider = page.getByRole("slider", { name: "Checkpoint" });
    await expect(page.getByRole("heading", { name: "The conversation now" })).toBeVisible();
    await page.keyboard.press("Home");
    await expect(page.getByText("Nothing had been said yet.")).toBeVisible();
    for (const { messageCount, tokenCount } of checkpoints.slice(1)) {
        await page.keyboard.press("ArrowRight");
        await expect(slider).toHaveValue(String(messageCount));
        await expect(page.locator("#tokens")).toHaveText(tokenCount.toLocaleString("en-US"));
        expect(await lastShown(page)).toBe(messageCount - 1);
    }
    await page.keyboard.press("End");
    await expect(page.getByText("Released.", { exact: true })).toBeVisible();

    const box = await slider.boundingBox();
    await page.mouse.click((box?.x ?? 0) + (box?.width ?? 0) / 2, (box?.y ?? 0) + (box?.height ?? 0) / 2);
    expect(checkpoints.map(({ messageCount }) => messageCount)).toContain(Number(await slider.inputValue()));
    await slider.focus();
    const before = Number(await slider.inputValue());
    await page.keyboard.press("ArrowDown");
    expect(Number(await slider.inputValue())).toBeLessThan(before);
    await page.getByRole("button", { name: "Checkpoint 1", exact: false }).first().click();
    await expect(page.locator("#heading")).toContainText("checkpoint 1");
});

test("timelines are branches: each leaves where it leaves, says why, and can be looked at", async ({ open }) => {
    const page = await open("tally");
    const lanes = page.getByRole("group", { name: "Present and timelines" }).getByRole("button");
    await expect(lanes).toHaveText([/^The present/, /^Timeline 4restore/, /^Timeline 3compaction/, /^Timeline 2revert/, /^Timeline 1revert/]);
    const ends = page.locator("#branches g.lane .end");
    await expect(ends).toHaveCount(5);
    for (let row = 0; row < 5; row++) {
        const [label, drawn] = [await middle(lanes.nth(row)), await middle(ends.nth(4 - row))]; // the present is drawn last, over the others
        expect(Math.abs(label - drawn)).toBeLessThan(2);
    }
    await lanes.nth(4).press("Enter"); // without a mouse
    await expect(page.locator("#about")).toContainText("Timeline 1: what the conversation was before a revert");
    await expect(page.locator("#about")).toContainText("It leaves the present after");
    await expect(lanes.nth(4)).toHaveAttribute("aria-pressed", "true");
    await expect(page.locator("#content")).toContainText("All green. Before I report");
    await expect(page.locator("#content")).not.toContainText("Released.");
    const { timelines } = await pipeline.call<{ timelines: { messageCount: number }[] }>("context/listTimelines", { sessionId: "tally" });
    await expect(page.getByRole("slider")).toHaveValue(String(timelines.at(-1)?.messageCount));
    expect(await lastShown(page)).toBe((timelines.at(-1)?.messageCount ?? 0) - 1);

    // By the pointer, in the drawing: the lane that is hit, at the nearest checkpoint.
    await page.locator("#branches").click({ position: { x: 12, y: 20 } });
    await expect(lanes.nth(0)).toHaveAttribute("aria-pressed", "true");
    await expect(page.getByRole("slider")).toHaveValue("0");
});

test("the curve has the token counts, and a mark where the slider is", async ({ open }) => {
    const page = await open("tally");
    const { usage } = await pipeline.call<{ usage: unknown[] }>("context/listUsage", { sessionId: "tally" });
    const curve = (await page.locator("#curve path.curve").last().getAttribute("d")) ?? "";
    expect(curve.match(/[ML]/g)).toHaveLength(usage.length);
    const place = async (name: string): Promise<number> => Number(await page.locator("#curve circle.here").getAttribute(name));
    const [x, y] = [await place("cx"), await place("cy")];
    await page.getByRole("button", { name: "The checkpoint before" }).click();
    await page.getByRole("button", { name: "The checkpoint before" }).click();
    expect(await place("cx")).toBeLessThan(x);
    expect(await place("cy")).toBeGreaterThan(y); // fewer tokens are further down
});

test("where no model has reported tokens the page says the editor's estimate at the end, elsewhere that they were not counted, and never 0", async ({ open }) => {
    const page = await open("hostile");
    const { context } = await pipeline.call<{ context: { tokenCountWithPending: number } }>("session/getState", { sessionId: "hostile" });
    const estimate = context.tokenCountWithPending.toLocaleString("en-US");
    expect(context.tokenCountWithPending).toBeGreaterThan(100);
    await expect(page.locator("#tokens")).toHaveText(estimate);
    await expect(page.locator("#facts")).toContainText(`${estimate} tokens`);
    await expect(page.locator("#about")).toContainText(`${estimate} tokens`);
    await expect(page.locator("#curve .scale").first()).toHaveText("no token counts");
    await page.keyboard.press("ArrowLeft");
    await expect(page.locator(".reading")).toHaveText(/^\s*–\s*tokens not counted\s*$/);
    await expect(page.getByRole("slider")).toHaveAttribute("aria-valuetext", /tokens not counted$/);
    await page.getByRole("button", { name: "Compare from here" }).click();
    await page.keyboard.press("ArrowRight");
    await expect(page.locator("#content .summary")).toContainText("3 added");
    expect(await page.locator("body").innerText()).not.toMatch(/(?<![\d,])0 tokens/);
});

test("any two points are compared as the server compares them", async ({ open }) => {
    const page = await open("tally", "#context_1");
    await page.getByRole("combobox", { name: "Compare with" }).selectOption({ label: "The present" });
    const ends = await pipeline.call<Difference>("context/diff", { sessionId: "tally", from: {}, to: { timelineId: "context_1" } });
    await compared(page, ends);

    const { checkpoints } = await pipeline.call<Listed>("context/listCheckpoints", { sessionId: "tally", order: "asc" });
    const [third, eighth] = [checkpoints[3], checkpoints[7]];
    await page.goto(`${pathToFileURL(file("tally")).href}#present/3`);
    await page.reload();
    await page.getByRole("button", { name: "Compare from here" }).click();
    await expect(page.locator("#content")).toContainText("Move the slider");
    for (let step = 3; step < 7; step++) await page.keyboard.press("ArrowRight");
    const points = { from: { checkpointUid: third?.uid }, to: { checkpointUid: eighth?.uid } };
    await compared(page, await pipeline.call<Difference>("context/diff", { sessionId: "tally", ...points }));
    await page.getByRole("combobox", { name: "Compare with" }).selectOption({ label: "nothing" });
    await expect(page.locator("#heading")).toContainText("The conversation at checkpoint 7");
});

test("a tool call and its result are one card, as in the editor", async ({ open }) => {
    const page = await open("tally");
    const cards = page.locator("section.card");
    await expect(cards.filter({ hasText: "list_files" }).locator(".answer")).toContainText("README.md");
    await expect(page.locator('article[data-role="tool"]')).toHaveCount(0);
    const publish = cards.filter({ hasText: "publish" });
    await expect(publish).toContainText("tally 1.4.0 is out");
    await page.keyboard.press("ArrowLeft"); // to the checkpoint between both
    await expect(publish).toContainText("no result here");
});

test("cards have edits as diffs, arguments by their names, long results folded, and say what failed", async ({ open }) => {
    const page = await open("calls");
    const cards = page.locator("section.card");
    const [edit, failing, listing, broken] = [cards.nth(0), cards.nth(1), cards.nth(2), cards.nth(3)];
    await expect(edit.locator(".card-head")).toContainText("src/tally.py");
    await expect(edit.locator(".line.removed .line-text")).toHaveText("    return total / guests");
    await expect(edit.locator(".line.added .line-text")).toHaveText(["    share, rest = divmod(total, guests)", "    return share, rest"]);
    await expect(edit.locator(".badge")).toHaveCount(0);

    await expect(failing).toHaveClass("card failed");
    await expect(failing).toHaveAccessibleName("run: failed");
    await expect(failing.locator(".badge")).toHaveText("failed");
    await expect(failing.locator("dt")).toHaveText(["command", "timeout"]);
    await expect(failing.locator("dd")).toHaveText(["pytest -q", "12345678901234567890"]);
    await expect(failing.locator(".answer pre")).toContainText("3 failed"); // why it failed stands at its end
    await expect(failing.locator(".answer pre")).not.toContainText("line 0\n");

    await expect(listing.locator(".badge")).toHaveCount(0);
    const [pre, fold] = [listing.locator(".answer pre"), listing.locator(".fold")];
    await expect(pre).toContainText("file 13");
    await expect(pre).not.toContainText("file 14");
    await fold.press("Enter");
    await expect(pre).toContainText("file 40");
    await expect(fold).toHaveText("Show less");
    await expect(fold).toHaveAttribute("aria-expanded", "true");
    await fold.press("Enter");
    await expect(fold).toHaveText("Show all 41 lines");
    await page.getByRole("searchbox").fill("file 30");
    await page.getByRole("searchbox").press("Enter"); // which is folded away
    await expect(pre).toContainText("file 30");

    await expect(broken.locator(".answer pre")).toHaveText(Array.from({ length: 40 }, (_, line) => `kept ${line}`).join("\n")); // 40 lines are not folded
    await expect(broken.locator("pre").first()).toHaveText('{"path": "cut off');
    await expect(page.locator('article[data-role="tool"] .call-name')).toHaveText("lost and found");

    const many = page.locator("article").filter({ hasText: "step 0" });
    await expect(many.locator("section.card")).toHaveCount(30);
    await many.getByRole("button", { name: "Show 970 more calls" }).click();
    await expect(many.locator("section.card")).toHaveCount(1_000);
    await expect(many.getByText("no result here").first()).toBeVisible();
    await page.emulateMedia({ media: "print" });
    await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
    await expect(failing.locator(".answer pre")).toContainText("line 0\n");
});

test("messages are shown as Markdown, of which HTML, pictures and unsafe links are text", async ({ open }) => {
    const page = await open("markdown");
    const [shown, huge] = [page.locator("#content .text").nth(0), page.locator("#content .text").nth(1)];
    await expect(shown.locator("h2")).toHaveText("Plan");
    await expect(shown.locator("table td")).toHaveText(["sum()", "114"]);
    await expect(shown.locator("td code")).toHaveText("sum()");
    await expect(shown.locator("strong")).toHaveText("not");
    await expect(shown.locator("ol > li")).toHaveCount(2);
    await expect(shown.locator("ol > li ul > li")).toHaveText("inner");
    await expect(shown.locator("ol")).toHaveAttribute("start", "3");
    await expect(shown.locator("pre")).toHaveText("print(1)");
    await expect(shown.locator("blockquote")).toHaveText("first\nsecond", { useInnerText: true });
    await expect(shown.locator("a")).toHaveCount(1);
    await expect(shown.locator("a")).toHaveAttribute("href", "https://example.org/");
    await expect(shown.locator("a")).toHaveAttribute("rel", "noreferrer noopener");
    await expect(shown).toContainText("[bad](javascript:alert(1))");
    await expect(shown).toContainText("![a picture](https://example.org/x.png)");
    await expect(shown).toContainText("<b>as it is</b>");
    await expect(shown.locator("b, img, script")).toHaveCount(0);
    await expect(huge.locator("em").first()).toHaveText("a");
    await page.getByRole("button", { name: "Show all" }).click();
    await expect(huge.locator("pre")).toHaveCount(1); // not parsed, as it is too long
});

test("what a message holds does nothing, and is shown as it is", async ({ open }) => {
    const page = await open("hostile");
    for (const text of HOSTILE) await expect(page.locator("#content")).toContainText(text);
    await page.locator("details").evaluateAll((all) => all.forEach((fold) => ((fold as HTMLDetailsElement).open = true)));
    await page.getByRole("button", { name: "Compare from here" }).click();
    await page.keyboard.press("Home");
    await page.getByRole("searchbox").fill("<script>");
    await page.getByRole("searchbox").press("Enter");
    const made = await page.locator("#page").evaluate((root) => Array.from(root.querySelectorAll("*"), (one) => one.localName));
    expect(made.filter((name) => ["a", "script", "style", "iframe", "img", "image", "object", "embed", "link", "meta", "use"].includes(name))).toEqual([]);
    const attributes = await page.locator("#page").evaluate((root) => Array.from(root.querySelectorAll("*")).flatMap((one) => one.getAttributeNames()));
    expect(attributes.filter((name) => name.startsWith("on") || ["href", "src", "srcdoc"].includes(name))).toEqual([]);
    expect(await page.evaluate(() => "pwned" in window)).toBe(false);
});

test("were markup to get into the page, its policy would keep it from running and from fetching", async ({ page }) => {
    let fetched = 0;
    const spy = createServer((_, reply) => {
        fetched += 1;
        reply.end();
    });
    await new Promise<void>((resolve) => spy.listen(0, "127.0.0.1", resolve));
    await page.goto(pathToFileURL(file("tally")).href);
    const stopped = await page.evaluate(async (address) => {
        const broken: string[] = [];
        document.addEventListener("securitypolicyviolation", (event) => broken.push(event.effectiveDirective));
        const refused: string[] = [];
        const attempt = (name: string, act: () => void): void => {
            try {
                act();
            } catch {
                refused.push(name);
            }
        };
        attempt("innerHTML", () => (document.body.innerHTML = "<img src=x onerror='window.pwned = 1'>"));
        attempt("script", () => (document.createElement("script").text = "window.pwned = 2"));
        const image = document.createElement("img");
        image.src = `${address}/spy.png`;
        const sheet = document.createElement("style");
        sheet.textContent = "body { display: none }";
        document.body.append(image, sheet);
        await new Promise((resolve) => setTimeout(resolve, 200));
        return { broken, refused, hidden: getComputedStyle(document.body).display === "none", pwned: "pwned" in window };
    }, `http://127.0.0.1:${(spy.address() as AddressInfo).port}`);
    spy.close();
    expect(stopped).toMatchObject({ refused: ["innerHTML", "script"], hidden: false, pwned: false });
    expect(stopped.broken).toEqual(expect.arrayContaining(["img-src", "style-src-elem"]));
    expect(fetched).toBe(0);
});

test("ten thousand messages stay fluent, and all of them can be found", async ({ open }) => {
    const begun = Date.now();
    const page = await open("long");
    expect(Date.now() - begun).toBeLessThan(10_000);
    await expect(page.locator("#facts")).toContainText("10,000 messages");
    const usual = await page.evaluate(() => {
        const step = (): number => {
            const start = performance.now();
            document.getElementById("back")?.click();
            document.body.getBoundingClientRect(); // with the layout
            return performance.now() - start;
        };
        return Array.from({ length: 41 }, step).sort((one, other) => one - other)[20];
    });
    console.log(`  a step takes ${usual?.toFixed(0)} ms`);
    expect(usual).toBeLessThan(1_000);
    await page.keyboard.press("End");
    expect(await page.locator("article").count()).toBeLessThan(200);

    const first = async (): Promise<number> => Number(await page.locator("article").first().getAttribute("data-index"));
    const early = await first();
    await page.locator("#shown").evaluate((column) => (column.scrollTop = 0));
    await expect.poll(first).toBeLessThan(early);

    await page.keyboard.press("/");
    await page.keyboard.type("needle 1234");
    await page.keyboard.press("Enter");
    await expect(page.locator("#hits")).toHaveText(/^(1|0) of 1$/);
    await expect(async () => {
        await page.keyboard.press("Enter");
        await expect(page.locator('article[data-index="1234"]')).toBeInViewport({ timeout: 500 });
    }).toPass();
    expect(await page.locator("article").count()).toBeLessThan(300);
});

test("it speaks Chinese to who reads Chinese, and keeps to the colours and the paper that are there", async ({ browser }) => {
    const context = await browser.newContext({ locale: "zh-CN", colorScheme: "dark", viewport: { width: 400, height: 800 } });
    const page = await context.newPage();
    await page.goto(pathToFileURL(file("tally")).href);
    await expect(page.getByRole("heading", { name: "现在的对话" })).toBeVisible();
    await expect(page.locator("html")).toHaveAttribute("lang", "zh-CN");
    await expect(page.getByRole("button", { name: "时间线 3" })).toBeVisible();
    const paper = (): Promise<string> => page.locator("body").evaluate((body) => getComputedStyle(body).backgroundColor);
    const dark = await paper();
    await page.emulateMedia({ colorScheme: "light" });
    expect(await paper()).not.toBe(dark);
    expect(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth)).toBe(true);
    await page.emulateMedia({ media: "print" });
    await expect(page.locator("#tools")).toBeHidden();
    await expect(page.locator("#content")).toBeVisible();
    await context.close();
});

test("it looks as the documentation shows it", async ({ open }) => {
    const page = await open("tally", "#present/8");
    await expect(page.locator("#heading")).toContainText("Ready to release");
    await expect(page.locator("section.card").last()).toBeVisible();
    await page.locator("#shown").evaluate((column) => (column.scrollTop = column.scrollHeight));
    if (process.env["TIMELEAP_SCREENSHOTS"]) {
        await page.screenshot({ animations: "disabled", caret: "hide", path: join(ROOT, "docs", "page.png") });
    }
});

async function middle(of: Locator): Promise<number> {
    const box = await of.boundingBox();
    return (box?.y ?? 0) + (box?.height ?? 0) / 2;
}

function file(sessionId: string): string {
    return join(folder, `${sessionId}.html`);
}

function user(content: string): object {
    return { role: "user", content };
}

function answer(content: string): object {
    return { role: "assistant", content };
}

function calling(tool: string): object {
    return { role: "assistant", content: "", tool_calls: [{ id: tool, type: "function", function: { name: tool, arguments: "{}" } }] };
}

/** The index of the last message of the conversation that is shown; a result counts where its call is. */
async function lastShown(page: Page): Promise<number> {
    const last = page.locator("#content article").last();
    const results = await last.locator(".card .answer").count();
    return Number(await last.getAttribute("data-index")) + results;
}

async function compared(page: Page, { common, removed, added, tokens }: Difference): Promise<void> {
    const summary = page.locator("#content .summary");
    await expect(summary).toContainText(`${common} messages in common`);
    await expect(summary).toContainText(`− ${removed.length} removed`);
    await expect(summary).toContainText(`+ ${added.length} added`);
    await expect(summary).toContainText(`${(tokens.to - tokens.from).toLocaleString("en-US")} tokens`);
    for (const [side, count] of [["removed", removed.length], ["added", added.length]] as const) {
        const shown = page.locator(`.sides > .${side}`);
        const results = await shown.locator(".card .answer").count();
        expect((await shown.locator("article").count()) + results).toBe(count);
    }
}

/** A log of many messages, with a checkpoint and a token count at every fourth of them. */
function long(): string {
    const lines: object[] = [];
    for (let index = 0; index < LONG; index++) {
        if (index % 4 === 0) lines.push({ role: "_checkpoint", id: index / 4 }, { role: "_usage", token_count: index * 20 });
        lines.push({ role: index % 2 === 0 ? "user" : "assistant", content: `needle ${index}\n${"hay ".repeat(150)}` });
    }
    return lines.map((line) => `${JSON.stringify(line)}\n`).join("");
}
