// What can only be seen with VS Code's own API, beside the installed extension.
// Node.js strips the types by itself; what is imported must be asked for with `require`.
import type * as Vscode from "vscode";
import type { TimeleapChange, TimeleapContextChange } from "../../src/features/api/apiTypes";
import type { Check, Running } from "./running.cts";

const assert: typeof import("node:assert/strict") = require("node:assert/strict") as typeof import("node:assert/strict");
const fs = require("node:fs") as typeof import("node:fs");
const path = require("node:path") as typeof import("node:path");
const vscode = require("vscode") as typeof Vscode;
const { home, installed, running } = require("./running.cts") as Running;

const checks = new Map<string, Check>();

function records(sessionId: string): { role: string; content?: unknown }[] {
    const text = fs.readFileSync(path.join(home, "sessions", sessionId, "context.jsonl"), "utf8");
    return text.split("\n").filter((line) => line !== "").map((line) => JSON.parse(line) as { role: string });
}

checks.set("the bundle is small", () => {
    const { size } = fs.statSync(path.join(installed().extensionPath, "dist/extension.js"));
    assert(size < 250 * 1024, `the bundle has ${String(size)} bytes`);
    return Promise.resolve({ kilobytes: Math.ceil(size / 1024) });
});

checks.set("every declared command is registered, every registered one declared", async () => {
    await installed().activate();
    const manifest = installed().packageJSON as { contributes: { commands: { command: string }[]; views: { timeleap: { id: string }[] } } };
    const declared = manifest.contributes.commands.map(({ command }) => command).sort();
    const ofViews = manifest.contributes.views.timeleap.map(({ id }) => `${id}.`);
    const all = (await vscode.commands.getCommands(true)).filter((command) => command.startsWith("timeleap."));
    const registered = all.filter((command) => !ofViews.some((view) => command.startsWith(view))).sort();
    // What only rows, welcome views and lists of ours run.
    const internal = [
        ...["archive", "clear", "closeSession", "delete", "reloadSession", "setTitle", "unarchive", "undelete"],
        ...["compareFileWithDisk", "installServer", "openFileChange", "openSample", "showMore"],
    ].map((name) => `timeleap.${name}`);
    assert.deepEqual(registered, [...declared, ...internal].sort());
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

checks.set("each change says which checkpoint, which timeline and which client; before going back an agent is waited for", async () => {
    const session = await installed().exports.openSession({ sessionId: "telling", show: false });
    const told: TimeleapContextChange[] = [];
    session.onDidChangeContext((change) => told.push(change));
    const stopped: string[] = [];
    session.onWillRevert(({ kind, checkpointUid, waitUntil }) => {
        waitUntil(new Promise((resolve) => setImmediate(resolve)).then(() => stopped.push(`${kind} ${checkpointUid ?? ""}`)));
    });
    await session.append({ role: "user", content: "one" });
    const { uid } = await session.checkpoint("here");
    await session.append({ role: "user", content: "two" });
    const { timelineId } = await session.revert(uid);
    assert.deepEqual(stopped, [`revert ${uid}`]);
    const reverted = told.find(({ kind }) => kind === "reverted");
    assert.equal(reverted?.checkpointUid, uid);
    assert.equal(reverted.timelineId, timelineId);
    assert.match(reverted.client ?? "", /VS ?Code|Visual Studio Code|code|timeleap/i);
    assert.equal(told.find(({ kind }) => kind === "checkpointCreated")?.checkpointUid, uid);
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

checks.set("chat finds the tools, and what they read comes from the session", async () => {
    const manifest = installed().packageJSON as { contributes: { languageModelTools: { name: string }[] } };
    const known = new Set(vscode.lm.tools.map(({ name }) => name));
    assert.deepEqual(manifest.contributes.languageModelTools.filter(({ name }) => !known.has(name)), []);
    const session = await installed().exports.openSession({ sessionId: "for-chat", show: false });
    await session.append({ role: "user", content: "The port is 8080." });
    const input = { sessionId: session.id };
    const { content } = await vscode.lm.invokeTool("timeleap_read", { input, toolInvocationToken: undefined }, new vscode.CancellationTokenSource().token);
    assert.match(content.map((part) => (part as Vscode.LanguageModelTextPart).value).join(""), /\[0\] user: The port is 8080\./);
    await session.close();
    return undefined;
});

module.exports = { run: running(checks) };
