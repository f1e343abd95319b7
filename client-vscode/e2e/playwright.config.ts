import { defineConfig } from "@playwright/test";
import { PATIENCE } from "./window/patience";

// What takes times has the machine to itself: one workbench at a time, each of which is a server, an extension host and a browser.
const MEASURED = ["host", "jump", "latency", "paint", "speed"].map((name) => `**/${name}.test.ts`);

// Two workbenches, since each waits much of the time. A flaky test is a bug: nothing is retried here, and in CI, where the machine is
// shared, once, and then it is reported as flaky.
export default defineConfig({
    testDir: "tests",
    workers: 2,
    projects: [
        { name: "used", testIgnore: MEASURED, outputDir: "../../.tools/e2e-results/used" },
        { name: "measured", testMatch: MEASURED, workers: 1, outputDir: "../../.tools/e2e-results/measured" },
    ],
    fullyParallel: false,
    retries: process.env["CI"] ? 1 : 0,
    forbidOnly: !!process.env["CI"],
    timeout: 300_000,
    expect: { timeout: PATIENCE },
    reporter: [["list"]],
    use: { actionTimeout: PATIENCE, navigationTimeout: PATIENCE, screenshot: "only-on-failure", trace: "off" },
});
