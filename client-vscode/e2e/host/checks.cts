// Runs inside the extension host, beside the installed extension, with VS Code's own API: see `tests/host.test.ts`.
// Node.js strips the types by itself; what is imported must be asked for with `require`.
import type * as Vscode from "vscode";
import type { TimeleapApi, TimeleapChange } from "../../src/apiTypes";

const assert: typeof import("node:assert/strict") = require("node:assert/strict");
const fs = require("node:fs") as typeof import("node:fs");
const path = require("node:path") as typeof import("node:path");
const vscode = require("vscode") as typeof Vscode;

interface Outcome {
    name: string;
    error?: string;
    facts?: Record<string, number>;
}

type Check = () => Promise<Record<string, number> | undefined>;

const home = process.env["TIMELEAP_HOME"] ?? "";
const checks = new Map<string, Check>();

function installed(): Vscode.Extension<TimeleapApi> {
    const found = vscode.extensions.getExtension<TimeleapApi>("timeleap.timeleap");
    assert(found, "the extension is not installed");
    return found;
}

function records(sessionId: string): { role: string; content?: unknown }[] {
    const text = fs.readFileSync(path.join(home, "sessions", sessionId, "context.jsonl"), "utf8");
    return text.split("\n").filter((line) => line !== "").map((line) => JSON.parse(line) as { role: string });
}

checks.set("activation costs little and starts nothing", async () => {
    assert.equal(installed().isActive, false, "something has activated the extension already");
    const started = performance.now();
    const before = process.cpuUsage();
    await installed().activate();
    const used = process.cpuUsage(before);
    assert.equal(fs.existsSync(home), false, "a server was started before anybody asked for one");
    return { milliseconds: performance.now() - started, cpuMilliseconds: (used.user + used.system) / 1000 };
});

checks.set("every declared command is registered, every registered one declared", async () => {
    const manifest = installed().packageJSON as { contributes: { commands: { command: string }[]; views: { timeleap: { id: string }[] } } };
    const declared = manifest.contributes.commands.map(({ command }) => command).sort();
    const ofViews = manifest.contributes.views.timeleap.map(({ id }) => `${id}.`);
    const all = (await vscode.commands.getCommands(true)).filter((command) => command.startsWith("timeleap."));
    const registered = all.filter((command) => !ofViews.some((view) => command.startsWith(view))).sort();
    assert.deepEqual(registered, declared);
    return undefined;
});

checks.set("another extension keeps its conversation, goes back, and undoes that", async () => {
    const timeleap = installed().exports;
    assert.equal(timeleap.version, 1);
    const session = await timeleap.openSession({ sessionId: "from-an-extension", title: "From an extension" });
    const changes: TimeleapChange[] = [];
    session.onDidChange((change) => changes.push(change));
    await session.append({ role: "user", content: "one" }, { role: "assistant", content: "two" });
    const { uid } = await session.checkpoint("here");
    assert.equal(await session.append({ role: "user", content: "three" }), 2);
    const { timelineId, context } = await session.revert(uid);
    assert.equal(context.messageCount, 2);
    assert.deepEqual(records(session.id).map(({ role }) => role), ["user", "assistant"]);
    assert(timelineId);
    await session.restore(timelineId);
    const contents: unknown[] = [];
    for await (const { message } of session.history()) contents.push(message.content);
    assert.deepEqual(contents, ["one", "two", "three"]);
    for (const kind of ["messagesAppended", "checkpointCreated", "reverted", "timelineRestored"] as const) {
        assert(changes.includes(kind), `no event ${kind} among ${changes.join(", ")}`);
    }
    assert.equal(await session.isApproved("run tests"), false);
    await session.close();
    return undefined;
});

checks.set("errors carry the kind the protocol gives them", async () => {
    const timeleap = installed().exports;
    const session = await timeleap.openSession({ sessionId: "refusing", show: false });
    await assert.rejects(session.revert("c0-000000000000"), { kind: "checkpointNotFound" });
    await session.close();
    return undefined;
});

async function run(): Promise<void> {
    const outcomes: Outcome[] = [];
    for (const [name, check] of checks) {
        try {
            const facts = await check();
            outcomes.push({ name, ...(facts ? { facts } : {}) });
        } catch (error) {
            outcomes.push({ name, error: error instanceof Error ? (error.stack ?? error.message) : String(error) });
        }
    }
    fs.writeFileSync(process.env["TIMELEAP_HOST_REPORT"] ?? "", JSON.stringify(outcomes));
}

module.exports = { run };
