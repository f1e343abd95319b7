import { defineConfig } from "@playwright/test";

// One workbench at a time: each is a server, an extension host and a browser. Nothing is retried: a flaky test is a bug.
export default defineConfig({
    testDir: "tests",
    outputDir: "../../.tools/e2e-results",
    workers: 1,
    fullyParallel: false,
    retries: 0,
    forbidOnly: !!process.env["CI"],
    timeout: 120_000,
    expect: { timeout: 20_000 },
    reporter: [["list"]],
    use: { actionTimeout: 20_000, screenshot: "only-on-failure", trace: "off" },
});
