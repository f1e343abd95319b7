/** The package as others take it in: required, imported, and bundled by esbuild into one file. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { build, type Format } from "esbuild";
import { Fake } from "../support/fake.js";

const ROOT = join(__dirname, "..", "..");
const BUILT = join(ROOT, "dist", "index.js");
const run = promisify(execFile);

let folder: string;

before(() => {
  folder = mkdtempSync(join(tmpdir(), "timeleap-bundle-"));
});

after(() => rmSync(folder, { recursive: true, force: true }));

function body(command: unknown): string {
  return `
    async function main() {
      const client = await TimeleapClient.start(${JSON.stringify(command)});
      const { head } = await client.request("context/appendMessage", { sessionId: "s", message: { role: "user", content: "hi" } });
      await client.shutdown();
      console.log(head, new TimeleapError("", 4001, { kind: "sessionNotFound", retryable: false }).name, PROTOCOL_VERSION);
    }
    main();
  `;
}

async function works(file: string, text: string): Promise<void> {
  const fake = new Fake();
  writeFileSync(join(folder, file), text + body(fake.command));
  const { stdout } = await run(process.execPath, [join(folder, file)]);
  assert.equal(stdout, "1 TimeleapError 1\n");
  await fake.end();
}

test("it is required", async () => {
  await works("required.cjs", `const { TimeleapClient, TimeleapError, PROTOCOL_VERSION } = require(${JSON.stringify(BUILT)});`);
});

test("it is imported, by name", async () => {
  const url = JSON.stringify(pathToFileURL(BUILT).href);
  await works("imported.mjs", `import { TimeleapClient, TimeleapError, PROTOCOL_VERSION } from ${url};`);
});

for (const [format, extension] of [
  ["cjs", "cjs"],
  ["esm", "mjs"],
] as const) {
  test(`it is bundled into one file (${format})`, async () => {
    const fake = new Fake();
    const entry = join(folder, `entry-${format}.mjs`);
    const names = "TimeleapClient, TimeleapError, PROTOCOL_VERSION";
    writeFileSync(entry, `import { ${names} } from ${JSON.stringify(BUILT)};\n${body(fake.command)}`);
    const outfile = join(folder, `bundle.${extension}`);
    // What bundles need of Node in the ESM form is for whoever bundles to give, as is usual.
    const banner = format === "esm" ? { js: 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);' } : {};
    const options = { bundle: true, platform: "node", target: "node20", minify: true, logLevel: "silent" } as const;
    await build({ entryPoints: [entry], outfile, format: format satisfies Format, banner, ...options });
    const { stdout } = await run(process.execPath, [outfile]);
    assert.equal(stdout, "1 TimeleapError 1\n");
    await fake.end();
  });
}

test("it needs nothing but Node.js", () => {
  const description = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { [member: string]: unknown };
  assert.deepEqual([description["dependencies"], description["peerDependencies"]], [undefined, undefined]);
  assert.ok(createRequire(BUILT)(BUILT));
});
