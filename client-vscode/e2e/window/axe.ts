/** What axe finds serious for people who hear a page, or need contrast. */
import type { Frame } from "@playwright/test";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const AXE = readFileSync(createRequire(__filename).resolve("axe-core/axe.min.js"), "utf8");

interface Options {
    /** Where to look. Default: everywhere. */
    readonly within?: string;
    readonly rules?: readonly string[];
}

interface Violation {
    readonly id: string;
    readonly impact: string;
    readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[];
}

export async function serious(frame: Frame, { within, rules }: Options = {}): Promise<string[]> {
    await frame.evaluate((source) => {
        if (!("axe" in globalThis)) (0, eval)(source);
    }, AXE).catch(() => frame.evaluate(AXE)); // the page forbids the former
    const found = await frame.evaluate(async ([where, only]) => {
        const { axe } = globalThis as unknown as { axe: { run: (context: unknown, options: object) => Promise<{ violations: Violation[] }> } };
        const runOnly = only.length > 0 ? { type: "rule", values: only } : ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"];
        return (await axe.run(where ?? document, { runOnly })).violations.map(({ id, impact, nodes }) => ({ id, impact, nodes: nodes.map(({ html, failureSummary }) => ({ html, failureSummary })) }));
    }, [within, rules ?? []] as const);
    return found
        .filter(({ impact }) => impact === "serious" || impact === "critical")
        .flatMap(({ id, nodes }) => nodes.slice(0, 3).map(({ html, failureSummary }) => `${id}: ${html.slice(0, 160)} ${failureSummary}`));
}
