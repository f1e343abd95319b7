#!/usr/bin/env node
// A Timeleap client in Node.js without a line of our code and without a package: the LSP base protocol by hand.
//
//   node examples/node-client.mjs            (TIMELEAP_HOME=folder for a store that stays)
//
// It opens a session, writes a turn, goes back to before it and undoes that, and prints what the server tells meanwhile.
import { spawn } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

class Connection {
  #pending = new Map();
  #received = Buffer.alloc(0);
  #lastId = 0;
  onNotification = (_method, _params) => {};

  constructor(command, args, env) {
    this.process = spawn(command, args, { env, stdio: ["pipe", "pipe", "inherit"] });
    this.process.stdout.on("data", (chunk) => this.#feed(chunk));
    this.process.on("exit", () => this.#pending.forEach(({ reject }) => reject(new Error("the server went away"))));
  }

  request(method, params) {
    const id = ++this.#lastId;
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve, reject });
      this.#send({ jsonrpc: "2.0", id, method, params });
    });
  }

  notify(method, params) {
    this.#send({ jsonrpc: "2.0", method, params });
  }

  #send(message) {
    const body = Buffer.from(JSON.stringify(message));
    this.process.stdin.write(`Content-Length: ${body.length}\r\n\r\n`);
    this.process.stdin.write(body);
  }

  #feed(chunk) {
    this.#received = Buffer.concat([this.#received, chunk]);
    for (;;) {
      const end = this.#received.indexOf("\r\n\r\n");
      if (end < 0) return;
      const length = Number(/content-length: *(\d+)/i.exec(this.#received.toString("ascii", 0, end))[1]);
      if (this.#received.length < end + 4 + length) return;
      const message = JSON.parse(this.#received.toString("utf8", end + 4, end + 4 + length));
      this.#received = this.#received.subarray(end + 4 + length);
      this.#dispatch(message);
    }
  }

  #dispatch(message) {
    if (message.method !== undefined) return this.onNotification(message.method, message.params);
    const { resolve, reject } = this.#pending.get(message.id);
    this.#pending.delete(message.id);
    if (message.error) reject(new Error(`${message.error.data.kind}: ${message.error.message}`));
    else resolve(message.result);
  }
}

const home = process.env.TIMELEAP_HOME ?? mkdtempSync(join(tmpdir(), "timeleap-"));
const connection = new Connection("timeleap", ["serve"], { ...process.env, TIMELEAP_HOME: home });
connection.onNotification = (method, params) => console.log(`   (${method}: ${params.kind ?? ""})`);

const { serverInfo } = await connection.request("initialize", { processId: process.pid, clientInfo: { name: "node-client" } });
connection.notify("initialized", {});
console.log(`Speaking to ${serverInfo.name} ${serverInfo.version}`);

const { sessionId } = await connection.request("session/open", { title: "From Node.js", autoCheckpoint: "turn" });
await connection.request("context/appendMessage", { sessionId, message: { role: "user", content: "Rename the module, please. 改名" } });
await connection.request("context/appendMessage", {
  sessionId,
  messages: [
    { role: "assistant", content: "Renaming it.", tool_calls: [{ type: "function", id: "1", function: { name: "move", arguments: '{"from":"a.js","to":"b.js"}' } }] },
    { role: "tool", tool_call_id: "1", content: "moved" },
  ],
});

const { checkpoints } = await connection.request("context/listCheckpoints", { sessionId });
console.log(`Checkpoint ${checkpoints[0].id}: ${checkpoints[0].label}`);

const reverted = await connection.request("context/revertTo", { sessionId, checkpointUid: checkpoints[0].uid });
console.log(`Reverted: ${reverted.removed.messages} messages were set aside, ${reverted.context.messageCount} are left`);

const restored = await connection.request("context/restoreTimeline", { sessionId, timelineId: reverted.timelineId });
console.log(`Restored: ${restored.context.messageCount} messages again`);

try {
  await connection.request("context/revertTo", { sessionId, checkpointId: 99 });
} catch (error) {
  console.log(`As it should be: ${error.message}`);
}

await connection.request("shutdown");
connection.notify("exit");
