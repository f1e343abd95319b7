// What activation costs; in a window of its own, in which nobody has used the extension yet.
// Node.js strips the types by itself; what is imported must be asked for with `require`.
import type { Check, Running } from "./running.cts";

const assert: typeof import("node:assert/strict") = require("node:assert/strict") as typeof import("node:assert/strict");
const fs = require("node:fs") as typeof import("node:fs");
const { performance } = require("node:perf_hooks") as typeof import("node:perf_hooks");
const { home, installed, running } = require("./running.cts") as Running;

const checks = new Map<string, Check>();

/** Until this thread has nothing else to do: the host has just started. */
async function untilIdle(): Promise<void> {
    for (let busy = 1; busy > 0.1; ) {
        const before = performance.eventLoopUtilization();
        await new Promise((resolve) => setTimeout(resolve, 500));
        busy = performance.eventLoopUtilization(before).utilization;
    }
}

checks.set("activation costs little and starts nothing", async () => {
    assert.equal(installed().isActive, false, "something has activated the extension already");
    await untilIdle();
    const started = performance.now();
    const before = process.threadCpuUsage(); // of this thread; what it takes in all depends on what else the machine does
    await installed().activate();
    const used = process.threadCpuUsage(before);
    const milliseconds = Math.round(performance.now() - started);
    assert.equal(fs.existsSync(home), false, "a server was started before anybody asked for one");
    return { milliseconds, cpuMilliseconds: Math.round((used.user + used.system) / 1000) };
});

module.exports = { run: running(checks) };
