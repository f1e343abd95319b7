// A middleman between the extension and the real server: `node middleman.mjs FOLDER COMMAND ARGUMENT...`
//
// It writes what passes to FOLDER/traffic.jsonl, and does what FOLDER/plan.json says, which tests may change at any time:
//   {"silent": true}                       nothing the server says gets through
//   {"speak": 2}                           the extension is passed off as one that speaks protocol version 2
//   {"dieBefore": "context/revertTo"}      the server is killed when it is asked for that (dry runs do not count)
//   {"dieAfter": "context/revertTo"}       the server is killed when that is done, and nobody hears that it was done
//   {"dieAlways": "initialize"}            the server is killed whenever it is asked for that
//   {"slow": {"context/compact": 2000}}    the request waits, in milliseconds
import { spawn } from "node:child_process";
import { appendFileSync, existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";

const [folder, command, ...args] = process.argv.slice(2);
const server = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const asked = new Map();

function plan() {
    const file = join(folder, "plan.json");
    return existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : {};
}

function record(from, message, bytes) {
    const method = message.method ?? asked.get(message.id)?.method;
    const line = { time: Date.now(), from, kind: message.method ? "request" : "reply", method, params: message.params, bytes };
    appendFileSync(join(folder, "traffic.jsonl"), `${JSON.stringify(line)}\n`);
}

function die() {
    server.kill("SIGKILL");
    process.exit(137);
}

// The server that is started afterwards gets through.
function dieOnce() {
    rmSync(join(folder, "plan.json"), { force: true });
    die();
}

// Call `take(message, line)` for each line that a stream brings: one JSON object each.
function listen(stream, take) {
    let held = "";
    stream.setEncoding("utf8").on("data", (chunk) => {
        const lines = (held + chunk).split("\n");
        held = lines.pop();
        for (const line of lines) take(JSON.parse(line), `${line}\n`);
    });
}

listen(process.stdin, (message, line) => {
    if (message.method && message.id !== undefined) asked.set(message.id, message);
    record("client", message, Buffer.byteLength(line));
    const { dieAlways, dieBefore, speak, slow } = plan();
    if (message.method && message.method === dieAlways) die();
    if (message.method && message.method === dieBefore && !message.params?.dryRun) dieOnce();
    const passed = message.method === "initialize" && speak ? speaking(message, speak) : line;
    const wait = slow?.[message.method] ?? 0;
    if (wait) setTimeout(() => server.stdin.write(passed), wait);
    else server.stdin.write(passed);
});

function speaking(message, protocolVersion) {
    const capabilities = { experimental: { timeleap: { protocolVersion } } };
    return `${JSON.stringify({ ...message, params: { ...message.params, capabilities } })}\n`;
}

listen(server.stdout, (message, line) => {
    record("server", message, Buffer.byteLength(line));
    const { dieAfter, silent } = plan();
    const request = asked.get(message.id);
    if (!message.method && request && request.method === dieAfter && !request.params?.dryRun) dieOnce();
    if (!silent) process.stdout.write(line);
});

process.stdin.on("end", () => server.stdin.end());
process.on("SIGTERM", () => server.kill("SIGTERM"));
server.on("exit", (code) => process.exit(code ?? 137));
