/** The HTML page that a session is exported to, in a browser, from a file. No workbench is needed. */
import { type Locator, type Page, expect, test as base } from "@playwright/test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { SAMPLE_SESSION, chromium } from "../support/places";
import { type Pipeline, Store } from "../support/store";
import { serious } from "../window/axe";

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
            await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
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

/** A message that is in the document. */
const row = (page: Page, index: number): Locator => page.locator(`article.row[data-index="${String(index)}"]`);

test("it is the page of the editor, without anything that would change the session", async ({ open }) => {
    const page = await open("tally");
    await expect(page.getByRole("heading", { level: 1 })).toHaveText("Shares that add up");
    await expect(page.locator("article.row").last()).toContainText("Released.");
    for (const name of ["Undo", "Redo", "Restore", "Restore to Before This", "Compare…"]) await expect(page.getByRole("button", { name, exact: true })).toHaveCount(0);
    const last = page.locator("article.row").last();
    await last.hover();
    await last.locator(".more").click();
    await expect(page.getByRole("menuitem")).toHaveText(["Compare with Present", "Copy as Markdown", "Copy as JSON"]);
    await page.keyboard.press("Escape");
    expect(await serious(page.mainFrame())).toEqual([]);
});

test("slider and keys go through the checkpoints, on the axis of the curve", async ({ open }) => {
    const page = await open("tally");
    const { checkpoints } = await pipeline.call<Listed>("context/listCheckpoints", { sessionId: "tally", order: "asc" });
    const slider = page.getByRole("slider");
    await page.getByRole("feed").press("Home");
    await expect(row(page, 0)).toBeInViewport();
    for (const { messageCount } of checkpoints.slice(1, 4)) {
        await slider.press("ArrowRight");
        await expect(slider).toHaveValue(String(messageCount));
        await expect(row(page, messageCount)).toBeInViewport();
    }
    await slider.press("ArrowLeft");
    await expect(slider).toHaveValue(String(checkpoints[2]?.messageCount));
    const [thumb, cursor] = await slider.evaluate((input: HTMLInputElement) => {
        const box = input.getBoundingClientRect();
        const place = document.querySelector(".curve .place")?.getBoundingClientRect();
        return [box.left + 8 + ((box.width - 16) * Number(input.value)) / Number(input.max), (place?.left ?? 0) + (place?.width ?? 0) / 2];
    });
    expect(Math.abs(thumb - cursor)).toBeLessThan(2);
    const { usage } = await pipeline.call<{ usage: unknown[] }>("context/listUsage", { sessionId: "tally" });
    const curve = (await page.locator(".curve path.line").getAttribute("d")) ?? "";
    expect(curve.match(/[ML]/g)?.length).toBeGreaterThanOrEqual(usage.length);
    await page.goto(`${pathToFileURL(file("tally")).href}#present/8`);
    await page.reload();
    await expect(row(page, 8)).toBeInViewport();
});

test("timelines are branches: each says why it was set aside, and can be looked at", async ({ open }) => {
    const page = await open("tally");
    const lanes = page.getByRole("group", { name: /set aside/ }).getByRole("button");
    await expect(lanes.first()).toHaveText(/^Present/);
    await expect(lanes.filter({ hasText: "Before a restore" })).toHaveCount(2); // another one has nothing that the present has not
    await lanes.last().press("Enter"); // without a mouse
    await expect(page.getByRole("heading", { level: 1 })).toHaveText(/^Before a restore/);
    await expect(lanes.last()).toHaveAttribute("aria-pressed", "true");
    await expect(page.getByText("All green. Before I report")).toBeVisible();
    await page.getByRole("button", { name: "Compare with Present" }).first().click();
    const ends = await pipeline.call<Difference>("context/diff", { sessionId: "tally", from: { timelineId: "context_1" }, to: {} });
    await expect(page.locator(".over")).toContainText(`The same in both: ${String(ends.common)} messages.`);
    await expect(page.locator(".side.removed h3")).toContainText(`${String(ends.removed.length)} messages`);
    await expect(page.locator(".side.added h3")).toContainText(`${String(ends.added.length)} messages`);
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Show the Present", exact: true }).click();
    await expect(page.locator("article.row").last()).toContainText("Released.");
});

test("cards have edits as diffs, arguments by their names, long results folded, and say what failed", async ({ open }) => {
    const page = await open("calls");
    await page.getByRole("feed").press("Home");
    const cards = row(page, 1).locator("section.card");
    const [edit, failing, listing, broken] = [cards.nth(0), cards.nth(1), cards.nth(2), cards.nth(3)];
    await expect(edit.locator(".card-head")).toContainText("src/tally.py");
    await expect(edit.locator(".line.removed .line-text")).toHaveText("    return total / guests");
    await expect(failing).toHaveAccessibleName("run: failed");
    await expect(failing.locator("dd")).toHaveText(["pytest -q", "12345678901234567890"]);
    await expect(failing.locator(".answer pre")).toContainText("3 failed"); // why it failed stands at its end
    await expect(listing.locator(".answer pre")).not.toContainText("file 14");
    await listing.locator(".fold").press("Enter");
    await expect(listing.locator(".answer pre")).toContainText("file 40");
    await expect(broken.locator("pre").first()).toHaveText('{"path": "cut off');
    await page.getByRole("feed").press("End");
    const many = row(page, 7);
    await expect(many.locator("section.card")).toHaveCount(30);
    await many.getByRole("button", { name: "Show more (970)" }).click();
    await expect(many.locator("section.card")).toHaveCount(1_000);
});

test("messages are shown as Markdown, of which HTML, pictures and unsafe links are text; long ones to their end", async ({ open }) => {
    const page = await open("markdown");
    await page.getByRole("feed").press("Home");
    const shown = row(page, 0).locator(".text").first();
    await expect(shown.locator("h2")).toHaveText("Plan");
    await expect(shown.locator("table td")).toHaveText(["sum()", "114"]);
    await expect(shown.locator("ol > li ul > li")).toHaveText("inner");
    await expect(shown.locator("pre")).toHaveText("print(1)");
    await expect(shown.locator("a")).toHaveCount(1);
    await expect(shown.locator("a")).toHaveAttribute("rel", "noreferrer noopener");
    await expect(shown).toContainText("[bad](javascript:alert(1))");
    await expect(shown).toContainText("![a picture](https://example.org/x.png)");
    await expect(shown).toContainText("<b>as it is</b>");
    await expect(shown.locator("b, img, script")).toHaveCount(0);
    await expect(row(page, 1).locator("em")).toHaveCount(0); // not parsed, as it is too long
});

test("what a message holds does nothing, and is shown as it is", async ({ open }) => {
    const page = await open("hostile");
    await page.getByRole("feed").press("Home");
    await expect(row(page, 0)).toContainText(HOSTILE[0] ?? "");
    await page.getByRole("searchbox").fill("<script>");
    await expect(page.locator(".count")).toHaveText(/^1 \/ \d+$/);
    await page.getByRole("button", { name: "Compare with Present" }).first().click();
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
    expect(Date.now() - begun).toBeLessThan(20_000);
    await expect(page.locator(".facts").first()).toContainText("10,000 messages");
    expect(await page.locator("article").count()).toBeLessThan(60);
    const jumps: number[] = [];
    for (const index of [40, 9_000, 5_000]) {
        const from = Date.now();
        await page.getByRole("slider").fill(String(index));
        await expect(row(page, index)).toBeInViewport();
        jumps.push(Date.now() - from);
    }
    console.log(`  jumps ${jumps.join(", ")} ms`);
    await page.keyboard.press("Escape");
    await page.getByRole("searchbox").fill("needle 1234");
    await expect(page.locator(".count")).toHaveText("1 / 1");
    await expect(row(page, 1_234)).toBeInViewport();
    expect(await page.locator("article").count()).toBeLessThan(60);
});

test("it speaks Chinese to who reads Chinese, and keeps to the colours that are there", async ({ browser }) => {
    const context = await browser.newContext({ locale: "zh-CN", colorScheme: "dark", viewport: { width: 400, height: 800 } });
    const page = await context.newPage();
    await page.goto(pathToFileURL(file("tally")).href);
    await expect(page.locator("html")).toHaveAttribute("lang", "zh-CN");
    await expect(page.getByRole("searchbox", { name: "搜索" })).toBeVisible();
    const paper = (): Promise<string> => page.locator("body").evaluate((body) => getComputedStyle(body).backgroundColor);
    const dark = await paper();
    expect(await serious(page.mainFrame())).toEqual([]);
    await page.emulateMedia({ colorScheme: "light" });
    expect(await paper()).not.toBe(dark);
    expect(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth)).toBe(true);
    await context.close();
});

test("it looks as the documentation shows it", async ({ open }) => {
    const page = await open("tally", "#present/22");
    await expect(row(page, 22)).toBeInViewport();
    if (process.env["TIMELEAP_SCREENSHOTS"]) {
        await page.screenshot({ animations: "disabled", caret: "hide", path: join(process.env["TIMELEAP_SCREENSHOTS"], "exported.png") });
    }
});

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

/** A log of many messages, with a checkpoint and a token count at every fourth of them. */
function long(): string {
    const lines: object[] = [];
    for (let index = 0; index < LONG; index++) {
        if (index % 4 === 0) lines.push({ role: "_checkpoint", id: index / 4 }, { role: "_usage", token_count: index * 20 });
        lines.push({ role: index % 2 === 0 ? "user" : "assistant", content: `needle ${index}\n${"hay ".repeat(150)}` });
    }
    return lines.map((line) => `${JSON.stringify(line)}\n`).join("");
}
