import { ROOT } from "../support/places";
import { until } from "../support/process";
import { OURS, VSIX, expect, test } from "../support/test";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const folder = mkdtempSync(join(tmpdir(), "tl-host-"));
const report = join(folder, "report.json");

test.use({
    setup: {
        extensions: [VSIX],
        settings: OURS,
        environment: { TIMELEAP_HOST_REPORT: report },
        serverArguments: ["--vscode-option", "enable-smoke-test-driver"],
    },
});

test.afterAll(() => {
    rmSync(folder, { recursive: true, force: true });
});

interface Outcome {
    name: string;
    error?: string;
    facts?: Record<string, number>;
}

test("what runs inside the extension host holds", async ({ workbench }) => {
    const here = (path: string): string => `vscode-remote://${new URL(workbench.address).host}${join(ROOT, "client-vscode/e2e", path)}`;
    let code: number | undefined;
    await workbench.page.exposeFunction("codeAutomationLog", () => undefined);
    await workbench.page.exposeFunction("codeAutomationExit", (given: number) => (code = given));
    const payload = [
        ["extensionDevelopmentPath", here("fixtures/python")], // there must be one; ours is installed
        ["extensionTestsPath", here("host/checks.cts")],
        ["skipWelcome", "true"],
    ];
    await workbench.open({ payload: JSON.stringify(payload) });
    await until("the checks in the extension host end", () => code !== undefined, 60_000);
    expect(existsSync(report)).toBe(true);
    const outcomes = JSON.parse(readFileSync(report, "utf8")) as Outcome[];
    expect(outcomes.length).toBeGreaterThan(3);
    for (const { name, error, facts } of outcomes) {
        console.log(`  in the host: ${name}${facts ? ` ${JSON.stringify(facts)}` : ""}`);
        expect.soft(error, name).toBe(undefined);
    }
    // 50 is the aim; this counts what the other threads of the host did meanwhile as well.
    expect(outcomes[0]?.facts?.["cpuMilliseconds"]).toBeLessThan(100);
    expect(code).toBe(0);
});
