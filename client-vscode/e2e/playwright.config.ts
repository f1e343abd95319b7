import { defineConfig } from "@playwright/test";
import { PATIENCE } from "./window/patience";

// One workbench at a time: each is a server, an extension host and a browser. Nothing is retried: a flaky test is a bug.
export default defineConfig({
    testDir: "tests",
    outputDir: "../../.tools/e2e-results",
    workers: 1,
    fullyParallel: false,
    retries: 0,
    forbidOnly: !!process.env["CI"],
    timeout: 300_000,
    expect: { timeout: PATIENCE },
    reporter: [["list"]],
    use: { actionTimeout: PATIENCE, navigationTimeout: PATIENCE, screenshot: "only-on-failure", trace: "off" },
});
