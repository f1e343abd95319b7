import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { LogOutputChannel } from "vscode";
import { ServerFailure } from "../../src/core/server/failure.js";
import type { Launch } from "../../src/core/server/launch.js";
import { Sidecar, type SidecarState } from "../../src/core/server/sidecar.js";
import { stalenessOf } from "../../src/kit/staleness.js";
import type { Settings } from "../../src/shared/settings.js";
import { log, user } from "../support/vscode.js";

const SETTINGS = { durability: "os", home: "/store", store: "", maxContextSize: 1000, requestTimeout: 5_000 } as Settings;

/** A server in a few lines: answers by method, or does what it is told to. */
const server = (body: string): Launch => ({
  command: process.execPath,
  args: [
    "-e",
    `const answer = (id, result) => process.stdout.write(JSON.stringify({jsonrpc:"2.0",id,result}) + "\\n");
     const hello = { serverInfo: {name:"timeleap",version:"0"}, capabilities: {experimental: {timeleap: {protocolVersion: 1, methods: {"session/list": {params: []}}, notifications: [], clientRequests: [], limits: {}}}}};
     require("node:readline").createInterface({input: process.stdin}).on("line", (line) => { const {id, method, params} = JSON.parse(line); ${body} });`,
  ],
  source: "setting",
});

const SOUND = server(`if (method === "initialize") answer(id, hello); else if (method === "exit") process.exit(0); else if (id !== undefined) answer(id, {sessions: [], params, pid: process.pid});`);
/** Ends whenever it is asked for a list. */
const DYING = server(`if (method === "initialize") answer(id, hello); else if (method === "session/list") process.exit(1); else if (id !== undefined) answer(id, null);`);

let sidecar: Sidecar;
let logged: string[];
let states: SidecarState["kind"][];

function make(launch: Launch | (() => Promise<Launch>), initializeTimeout = 10_000, store = ""): Sidecar {
  const channel = log();
  logged = channel.lines;
  sidecar = new Sidecar({
    settings: () => ({ ...SETTINGS, store }),
    locate: typeof launch === "function" ? launch : () => Promise.resolve(launch),
    log: channel as unknown as LogOutputChannel,
    version: "1",
    initializeTimeout,
  });
  sidecar.onDidChangeState(({ kind }) => states.push(kind));
  return sidecar;
}

beforeEach(() => {
  user.reset();
  states = [];
});

afterEach(() => sidecar.dispose());

const failure = (kind: string): unknown => expect.objectContaining({ name: "ServerFailure", kind }) as unknown;

test("nothing is started before something is asked", async () => {
  make(SOUND);
  expect(sidecar.state).toEqual({ kind: "idle" });
  await sidecar.request("session/list", {});
  expect(states).toEqual(["starting", "ready"]);
});

/** Its answers have the mark from the first search on until the next one. */
const STANDBY = server(
  `if (method === "session/search") globalThis.marked = !globalThis.marked;
   if (method === "initialize") answer(id, hello); else if (method === "exit") process.exit(0);
   else if (method === "session/delete") answer(id, null);
   else if (id !== undefined) answer(id, {entries: [], ...(globalThis.marked && method !== "approval/list" ? {stale: true} : {})});`,
);

test("answers of a standby are known by their mark, until the first that could have it and has not", async () => {
  make(STANDBY);
  const staleness = stalenessOf(sidecar);
  const changes: boolean[] = [];
  staleness.onDidChange((stale) => changes.push(stale));
  await sidecar.request("session/list", {});
  expect([staleness.present, changes]).toEqual([false, []]);
  await sidecar.request("session/search", { query: "x" });
  expect(staleness.present).toBe(true);
  await sidecar.request("session/list", {});
  // Others never have it.
  await sidecar.request("approval/list", { sessionId: "s" });
  await sidecar.request("session/delete", { sessionId: "s" });
  expect([staleness.present, changes]).toEqual([true, [true]]);
  await sidecar.request("session/search", { query: "x" });
  expect([staleness.present, changes]).toEqual([false, [true, false]]);
});

test("many who ask at once get one server", async () => {
  make(SOUND);
  const answers = await Promise.all([1, 2, 3].map(() => sidecar.request("session/list", {})));
  expect(new Set(answers.map((answer) => (answer as unknown as { pid: number }).pid)).size).toBe(1);
  expect(states).toEqual(["starting", "ready"]);
});

test("a server of another version of the protocol is refused, by name", async () => {
  make(server(`hello.capabilities.experimental.timeleap.protocolVersion = 2; answer(id, hello);`));
  await expect(sidecar.started()).rejects.toEqual(failure("protocol"));
  expect(sidecar.state).toMatchObject({ kind: "failed" });
});

test("a program that speaks JSON-RPC and is not Timeleap is refused", async () => {
  make(server(`answer(id, {capabilities: {}});`));
  await expect(sidecar.started()).rejects.toEqual(failure("protocol"));
});

test("a server that never answers is given up on", async () => {
  make(server(""), 300);
  await expect(sidecar.started()).rejects.toEqual(failure("silent"));
});

test("a program that is missing, and one that ends at once, are named with the reason", async () => {
  make({ command: "/no/such/timeleap", args: [], source: "setting" });
  await expect(sidecar.started()).rejects.toEqual(failure("startFailed"));
  await expect(sidecar.started()).rejects.toThrow("/no/such/timeleap");
  sidecar.dispose();
  make({ command: process.execPath, args: ["-e", "console.error('ModuleNotFoundError: no timeleap'); process.exit(1)"], source: "setting" });
  await expect(sidecar.started()).rejects.toThrow("ModuleNotFoundError: no timeleap");
});

test("a program that does not start is asked what is wrong with it; one that answers is not", async () => {
  const blame = vi.fn(() => Promise.resolve(new ServerFailure("oldPython", "too old")));
  make({ ...server("process.exit(2)"), blame });
  await expect(sidecar.started()).rejects.toEqual(failure("oldPython"));
  sidecar.dispose();
  make({ ...server(`hello.capabilities.experimental.timeleap.protocolVersion = 2; answer(id, hello);`), blame });
  await expect(sidecar.started()).rejects.toEqual(failure("protocol"));
  expect(blame).toHaveBeenCalledOnce();
});

test("after a failure nothing is tried again until it is asked for", async () => {
  let found = 0;
  make(() => {
    found += 1;
    return found === 1 ? Promise.reject(new ServerFailure("noServer", "none")) : Promise.resolve(SOUND);
  });
  await expect(sidecar.request("session/list", {})).rejects.toEqual(failure("noServer"));
  await expect(sidecar.request("session/list", {})).rejects.toEqual(failure("noServer"));
  expect(found).toBe(1);
  await sidecar.restart();
  await sidecar.request("session/list", {});
  expect(states).toEqual(["starting", "failed", "starting", "ready"]);
});

test("a server that dies each time is given up on, in words", { timeout: 30_000 }, async () => {
  make(DYING);
  await sidecar.started();
  await expect(sidecar.request("session/list", {})).rejects.toMatchObject({ name: expect.stringMatching(/ConnectionLostError|StartFailedError/) as string });
  expect(states).toContain("restarting");
});

test("a restart while one is under way ends with one server, the last", async () => {
  make(SOUND);
  const first = sidecar.started();
  const second = sidecar.restart();
  await second;
  expect(await first).toBe(await sidecar.started());
  expect(sidecar.state.kind).toBe("ready");
});

/** Takes its time to end. */
const LINGERING = server(`if (method === "initialize") answer(id, hello); else if (method === "exit") process.exit(0); else if (id !== undefined) setTimeout(() => answer(id, {sessions: []}), 300);`);

test("a restart while the server before it still ends takes the place of the one under way: both have the server that is there", async () => {
  let found = 0;
  make(() => {
    found += 1;
    return Promise.resolve(LINGERING);
  });
  await sidecar.started();
  const waiting = [sidecar.restart(), sidecar.started(), sidecar.restart(), sidecar.started()];
  const [, one, , other] = await Promise.all(waiting);
  expect(one).toBe(other);
  expect(one).toBe(await sidecar.started());
  expect(found).toBe(2);
  expect(states).toEqual(["starting", "ready", "starting", "ready"]);
});

test("the settings go to the server; what is not set is left to it", async () => {
  make(server(`if (method === "initialize") { hello.serverInfo.version = JSON.stringify(params.initializationOptions); answer(id, hello); } else if (id !== undefined) answer(id, null);`));
  const client = await sidecar.started();
  expect(JSON.parse(client.server.serverInfo.version)).toEqual({ durability: "os", home: "/store", maxContextSize: 1000 });
});

/** Answers a list with what it was greeted with. */
const GREETED = server(
  `if (method === "initialize") { greeting = params; answer(id, hello); } else if (method === "exit") process.exit(0); else if (id !== undefined) answer(id, {sessions: [], greeting});`,
);

test("the store goes to the server, and neither its command nor the log says where it is", async () => {
  const store = "postgresql://agent@db1:5432,db2/timeleap?service=x&application_name=a";
  make(GREETED, 10_000, store);
  expect(await sidecar.request("session/list", {})).toMatchObject({ greeting: { initializationOptions: { home: "/store", store } } });
  expect(logged.join("\n")).toContain("starting");
  expect(logged.join("\n")).not.toContain("db1");
});

test.each(["postgresql://agent@db/timeleap", "postgresql:///timeleap?host=/run/postgresql&passfile=/secret/pgpass", "/srv/a:b@c", "file:///srv/x"])(
  "a store without a password is taken: %s",
  async (store) => {
    make(GREETED, 10_000, store);
    expect(await sidecar.request("session/list", {})).toMatchObject({ greeting: { initializationOptions: { store } } });
  },
);
