/** A server that behaves, or misbehaves, as its first argument says. */

import { createMessageConnection, ResponseError, StreamMessageReader, StreamMessageWriter } from "vscode-jsonrpc/node";

const mode = process.argv[2] ?? "good";
const connection = createMessageConnection(new StreamMessageReader(process.stdin), new StreamMessageWriter(process.stdout));

connection.onRequest("initialize", (params: unknown) => {
  if (mode === "silent") {
    return new Promise(() => undefined);
  }
  if (mode === "other-version") {
    return new ResponseError(4017, "another version", { kind: "protocolVersion", retryable: false, supported: 2 });
  }
  return { capabilities: { experimental: { timeleap: { params } } }, serverInfo: { name: "timeleap", version: "0" } };
});

connection.onRequest("session/close", (params: unknown) => ({ params }));

connection.onRequest("session/list", (params: unknown) => {
  void connection.sendNotification("$/progress", { token: "t", value: { kind: "begin", title: "Looking" } });
  void connection.sendNotification("session/warning", { sessionId: "a", kind: "test", message: "first" });
  return { sessions: [], nextCursor: JSON.stringify(params) };
});

connection.onRequest("session/getState", () => {
  return new ResponseError(4001, "no such session", { kind: "sessionNotFound", retryable: false, extra: 7 });
});

connection.onRequest("session/reload", () => new ResponseError(4002, "no data"));

connection.onRequest("session/setTitle", (_params: unknown, token) => {
  return new Promise((resolve) => token.onCancellationRequested(() => resolve({ head: "done all the same" })));
});

connection.onRequest("context/compact", async (params: { sessionId: string }) => {
  const asked = { sessionId: params.sessionId, systemPrompt: "summarise", prompt: { role: "user", content: "long" } };
  return connection.sendRequest("context/summarize", asked).catch((error: Error) => ({ failed: error.message }));
});

connection.onRequest("context/getHistory", () => {
  if (mode === "writes-garbage") {
    process.stdout.write("print() in a library\r\n\r\n");
  } else {
    process.exit(9);
  }
  return new Promise(() => undefined);
});

connection.onRequest("shutdown", () => null);
connection.onNotification("exit", () => process.exit(mode === "bad-exit" ? 1 : 0));
process.stderr.write("a line of the log\n");
connection.listen();
