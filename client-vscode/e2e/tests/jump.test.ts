import { WITH_OTHERS, expect, test } from "../support/test";
import { ConversationPage } from "../window/conversation";

const MANY = 10_000;
/** Ordinals of checkpoints, far from each other. */
const PLACES = [12, 9_000, 5_000, 777, 3_333, 9_998, 0, 6_500];
/** In cold starts of the server, one measured before each jump, since what else the machine does slows both: on an idle machine one takes about 95 ms. */
const AIM = 3.1;

test.use({ setup: WITH_OTHERS }); // they are not needed, but their workbench is there

test("any of ten thousand checkpoints is gone to by the page's slider in about three cold starts of the server: 0.3 s", async ({ workbench, window, store }) => {
    store.addLong(MANY);
    await workbench.open();
    await window.show();
    await window.openSession("A long session");
    await window.run("openConversation");
    const page = new ConversationPage(window.page);
    await expect(page.frame.locator(".facts").first()).toContainText("10,000 checkpoints");
    await expect(page.frame.locator(".here")).toContainText("Checkpoint 9,999"); // all checkpoints are there
    await expect(page.row(MANY * 2 - 1)).toContainText(`Answer ${String(MANY - 1)}.`);
    const jumps: { took: number; start: number }[] = [];
    for (const place of PLACES) {
        const start = await store.coldStart();
        const took = await page.frame.getByRole("slider").evaluate(jump, place);
        await expect(page.row(place * 2)).toContainText(`Step ${String(place)}:`);
        jumps.push({ took, start });
    }
    for (const { took, start } of jumps) console.log(`  jump ${took.toFixed(0)} ms, cold start ${start.toFixed(0)} ms: ${(took / start).toFixed(2)}`);
    const ratios = jumps.map(({ took, start }) => took / start).sort((one, other) => one - other);
    expect(ratios[Math.floor(ratios.length / 2)]).toBeLessThanOrEqual(AIM);
});

/** Milliseconds until the first message after a checkpoint is painted. The window itself takes the time: Playwright looks in intervals. */
function jump(slider: SVGElement | HTMLElement, place: number): Promise<number> {
    return new Promise((resolve) => {
        const started = performance.now();
        (slider as HTMLInputElement).value = String(place * 2);
        slider.dispatchEvent(new Event("input", { bubbles: true }));
        const look = (): void => {
            if (slider.ownerDocument.querySelector(`article[data-index="${String(place * 2)}"]:not([aria-busy])`)) resolve(performance.now() - started);
            else requestAnimationFrame(look);
        };
        requestAnimationFrame(look);
    });
}
