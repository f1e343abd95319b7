/** How tests start the real server. `TIMELEAP_COMMAND` says how, such as `python -m timeleap serve`. */

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { TimeleapClient, type ClientOptions } from "../src/index.js";

const [command = "timeleap", ...args] = (process.env["TIMELEAP_COMMAND"] ?? "timeleap serve").split(" ");

/** A store of its own, and clients of it; all of it goes at the end. */
export class Real {
  private readonly clients: TimeleapClient[] = [];

  private constructor(readonly home: string) {}

  static async make(): Promise<Real> {
    return new Real(await mkdtemp(join(tmpdir(), "timeleap-client-")));
  }

  async start(name = "client-test", options: ClientOptions = {}): Promise<TimeleapClient> {
    const env = { TIMELEAP_HOME: join(this.home, "store"), XDG_RUNTIME_DIR: this.home };
    const initialize = { clientInfo: { name } };
    const client = await TimeleapClient.start({ command, args, env }, { initialize, onLog: () => undefined, ...options });
    this.clients.push(client);
    return client;
  }

  async end(): Promise<void> {
    await Promise.all(this.clients.map((client) => (client.state === "disposed" ? undefined : client.shutdown())));
    await rm(this.home, { recursive: true, force: true });
  }
}
