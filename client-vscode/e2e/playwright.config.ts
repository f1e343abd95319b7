import { defineConfig } from "@playwright/test";
import { PATIENCE } from "./window/patience";

// One workbench at a time: each is a server, an extension host and a browser. A flaky test is a bug: nothing is retried here,
// and in CI, where the machine is shared, once, and then it is reported as flaky.
export default defineConfig({
    testDir: "tests",
    outputDir: "../../.tools/e2e-results",
    workers: 1,
    fullyParallel: false,
    retries: process.env["CI"] ? 1 : 0,
    forbidOnly: !!process.env["CI"],
    timeout: 300_000,
    expect: { timeout: PATIENCE },
    reporter: [["list"]],
    use: { actionTimeout: PATIENCE, navigationTimeout: PATIENCE, screenshot: "only-on-failure", trace: "off" },
});
