import { until } from "../support/process";
import { WITH_OTHERS, expect, sample, test } from "../support/test";
import type { Store } from "../support/store";
import type { Locator, Page } from "@playwright/test";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const ROUNDS = 5;
/** In a window that showed a session before: the server is there before the click. The best of the rounds, and their middle. */
const AIM = 1.2;
const USUAL = 1.5;
/** In one that has shown none, where the server is started by the click. The best of the rounds: each start varies by itself. */
const FIRST_TIME = 2.2;

interface Measured {
    firstRow: Promise<number>;
}

interface Round {
    tree: number;
    server: number;
}

test.use({ setup: { ...WITH_OTHERS, middled: true } });

/** Milliseconds from starting a program to its first page of checkpoints: what the tree needs of it, and nothing else. */
async function coldStart(store: Store, ...program: Parameters<Store["pipeline"]>): Promise<number> {
    const started = performance.now();
    const server = store.pipeline(...program);
    await Promise.all([
        server.call("initialize"),
        server.call("session/open", { sessionId: "small", create: false, access: "readOnly" }),
        server.call("context/listCheckpoints", { sessionId: "small", limit: 100 }),
    ]);
    const took = performance.now() - started;
    await server.close();
    return took;
}

/**
 * Milliseconds from the click on an icon to the first row of its view.
 * The page itself takes the time: Playwright looks for a row in intervals of up to half a second.
 */
async function firstTree(icon: Locator): Promise<number> {
    await icon.evaluate((clicked, rows) => {
        const page = window as unknown as Measured;
        clicked.addEventListener("mousedown", () => {
            const started = performance.now();
            page.firstRow = new Promise((resolve) => {
                const look = (): void => {
                    if (document.querySelector(rows)) resolve(performance.now() - started);
                    else requestAnimationFrame(look);
                };
                look();
            });
        }, { capture: true, once: true });
    }, ".part.sidebar .customview-tree [role=treeitem]");
    await icon.click();
    return await icon.page().evaluate(() => (window as unknown as Measured).firstRow);
}

/** Whether the browser has written which session was shown: it does so a moment after the extension has asked for it. */
function remembersSession(page: Page): Promise<boolean> {
    return page.evaluate(async () => {
        const settled = <T>(request: IDBRequest<T>): Promise<T> =>
            new Promise((resolve, reject) => {
                request.onsuccess = () => resolve(request.result);
                request.onerror = () => reject(new Error(request.error?.message));
            });
        for (const { name } of await indexedDB.databases()) {
            const database = await settled(indexedDB.open(name ?? ""));
            const tables = [...database.objectStoreNames];
            const values = tables.length === 0 ? [] : await Promise.all(tables.map((table) => settled(database.transaction(table).objectStore(table).getAll())));
            database.close();
            if (/timeleap\.session\\*"/.test(JSON.stringify(values))) return true;
        }
        return false;
    });
}

test.beforeAll(async ({ workbench, store }) => {
    await store.replay("small", sample(), { title: "Small", workspace: pathToFileURL(workbench.folder).href });
});

test(`where a session was shown before, the first row takes at most ${String(AIM)} times the server's own cold start`, async ({ workbench, window, store, middleman }) => {
    await workbench.open();
    await window.status("Extensions are ready").waitFor();
    await firstTree(window.icon);
    await expect.poll(() => remembersSession(window.page), { timeout: 60_000 }).toBe(true);
    const rounds: Round[] = [];
    while (rounds.length < ROUNDS) {
        await window.explorer.click(); // where the next window begins
        await expect(window.checkpoints.rows).toHaveCount(0);
        const opened = Date.now();
        await workbench.open();
        await window.status("Extensions are ready").waitFor();
        await until("the server answers before anybody looks", () => middleman.answered("initialize", opened));
        const server = await coldStart(store);
        expect(middleman.asked("session/open", opened)).toEqual([]); // it is started, and no session touched
        rounds.push({ server, tree: await firstTree(window.icon) });
    }
    tell("first row where a session was shown before", rounds);
    expect(Math.min(...ratios(rounds))).toBeLessThanOrEqual(AIM);
    expect(median(ratios(rounds))).toBeLessThanOrEqual(USUAL);
});

test(`where none was shown before, it takes at most ${String(FIRST_TIME)} times that`, async ({ workbench, window, store, middleman }) => {
    const rounds: Round[] = [];
    while (rounds.length < ROUNDS) {
        const folder = join(workbench.scratch, `unseen${String(rounds.length)}`);
        mkdirSync(folder);
        await store.replay(`unseen${String(rounds.length)}`, sample(), { workspace: pathToFileURL(folder).href });
        await window.explorer.click();
        const opened = Date.now();
        await workbench.open({ folder });
        await window.status("Extensions are ready").waitFor();
        // Both by way of the middleman, whose own start they have to wait for, too.
        const server = await coldStart(store, middleman.command);
        expect(middleman.asked("initialize", opened)).toHaveLength(1); // that one: nothing is started where nothing was shown
        rounds.push({ server, tree: await firstTree(window.icon) });
    }
    tell("first row where none was", rounds);
    expect(Math.min(...ratios(rounds))).toBeLessThanOrEqual(FIRST_TIME);
});

function ratios(rounds: readonly Round[]): number[] {
    return rounds.map(({ tree, server }) => tree / server);
}

function tell(name: string, rounds: readonly Round[]): void {
    for (const { tree, server } of rounds) console.log(`  ${name}: ${tree.toFixed(0)} ms, server alone ${server.toFixed(0)} ms: ${(tree / server).toFixed(2)}`);
    const all = ratios(rounds);
    console.log(`  ${name}, beside the server alone: in the middle ${median(all).toFixed(2)}, at best ${Math.min(...all).toFixed(2)}`);
}

function median(values: number[]): number {
    const sorted = [...values].sort((one, other) => one - other);
    return sorted[Math.floor(sorted.length / 2)] ?? NaN;
}
