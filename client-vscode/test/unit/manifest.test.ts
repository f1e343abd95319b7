import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { start } from "../support/extension.js";
import { ROOT } from "../support/strings.js";
import { commands, lm, user } from "../support/vscode.js";

interface Item {
  readonly command: string;
  readonly when?: string;
  readonly args?: unknown;
}

interface Manifest {
  readonly activationEvents: string[];
  readonly capabilities: { untrustedWorkspaces: { restrictedConfigurations: string[] } };
  readonly contributes: {
    readonly commands: { command: string; title: string; icon?: string }[];
    readonly menus: Record<string, Item[]>;
    readonly keybindings: Item[];
    readonly views: Record<string, { id: string }[]>;
    readonly viewsWelcome: { view: string; contents: string; when?: string }[];
    readonly configuration: { properties: Record<string, { scope: string }> };
    readonly walkthroughs: { steps: { media: { image: string }; completionEvents: string[] }[] }[];
  };
  readonly icon: string;
}

const manifest = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as Manifest;
const { contributes } = manifest;
const declared = contributes.commands.map(({ command }) => command);

/** What only rows, welcome views and lists of ours run is in no list of commands. */
const INTERNAL = [
  ...["archive", "clear", "closeSession", "delete", "reloadSession", "setTitle", "unarchive", "undelete"],
  ...["compareFileWithDisk", "installServer", "openFileChange", "openSample", "showMore"],
].map((name) => `timeleap.${name}`);

beforeEach(() => user.reset());

test("every declared command is registered, and every registered one is declared", async () => {
  const running = start();
  expect((await commands.getCommands()).sort()).toEqual([...declared, ...INTERNAL].sort());
  await running.stop();
});

test("activation starts nothing where nothing was shown before", async () => {
  const running = start();
  expect(running.memory.size).toBe(0);
  expect(user.context.get("timeleap.ready")).toBe(false);
  await running.stop();
  // What costs little, and lets the server be there before the click; a page that a reload of the window brings back.
  expect(manifest.activationEvents).toEqual(["onStartupFinished", "onWebviewPanel:timeleap.conversation"]);
});

test("the views are created with the ids of the manifest", async () => {
  const running = start();
  expect([...user.trees.keys()].sort()).toEqual(Object.values(contributes.views).flatMap((views) => views.map(({ id }) => id)).sort());
  await running.stop();
});

test("menus and keys name declared commands", () => {
  const pressed = contributes.keybindings.flatMap(({ command, args }) =>
    command === "runCommands" ? (args as { commands: string[] }).commands.filter((one) => !one.startsWith("list.")) : [command],
  );
  const named = [...Object.values(contributes.menus).flat().map(({ command }) => command), ...pressed];
  expect(named.filter((command) => !declared.includes(command))).toEqual([]);
});

test("a key that restores is about the row under the keyboard, not about one selected earlier", () => {
  const [first] = contributes.keybindings.filter(({ args }) => (JSON.stringify(args) as string | undefined)?.includes("timeleap.restore"));
  expect(first).toMatchObject({ command: "runCommands", args: { commands: ["list.selectAndPreserveFocus", "timeleap.restore"] } });
});

test("every command can be reached: from the palette, or where it is hidden there, from a menu or a row", () => {
  const hidden = contributes.menus["commandPalette"]!.filter(({ when }) => when === "false").map(({ command }) => command);
  const elsewhere = new Set(Object.entries(contributes.menus).flatMap(([menu, items]) => (menu === "commandPalette" ? [] : items.map(({ command }) => command))));
  expect(hidden.filter((command) => !elsewhere.has(command))).toEqual([]);
});

test("when clauses use keys that are set", async () => {
  const running = start();
  const clauses = [...Object.values(contributes.menus).flat(), ...contributes.viewsWelcome].map(({ when }) => when ?? "");
  const keys = new Set(clauses.flatMap((when) => [...when.matchAll(/\btimeleap\.(\w+)(?=$|[\s)]| ==| &&| \|\|)/g)].map(([key]) => key)));
  const views = new Set(Object.values(contributes.views).flatMap((list) => list.map(({ id }) => id)));
  expect([...keys].filter((key) => !user.context.has(key) && !views.has(key))).toEqual([]);
  await running.stop();
});

test("welcome views name commands that exist", () => {
  const texts = JSON.parse(readFileSync(join(ROOT, "package.nls.json"), "utf8")) as Record<string, string>;
  const named = Object.values(texts).flatMap((text) => [...text.matchAll(/\(command:(timeleap\.\w+)\)/g)].map(([, command]) => command!));
  expect(named.length).toBeGreaterThan(5);
  expect(named.filter((command) => ![...declared, ...INTERNAL].includes(command))).toEqual([]);
});

test("no setting that names a program or a folder can be set by a workspace that is not trusted", () => {
  const { restrictedConfigurations } = manifest.capabilities.untrustedWorkspaces;
  const { properties } = contributes.configuration;
  const unguarded = ["timeleap.server.command", "timeleap.server.interpreter", "timeleap.home"].filter(
    (name) => properties[name]!.scope !== "machine" && !restrictedConfigurations.includes(name),
  );
  expect(unguarded).toEqual([]);
  expect(restrictedConfigurations.filter((name) => !(name in properties))).toEqual([]);
});

test("settings are read under the names they are declared with", () => {
  const source = readFileSync(join(ROOT, "src", "shared", "settings.ts"), "utf8");
  const read = [...source.matchAll(/\.get(?:<[^(]+>)?\("([\w.]+)"/g)].map(([, name]) => `timeleap.${name!}`);
  expect(read.sort()).toEqual(Object.keys(contributes.configuration.properties).sort());
});

test("what the manifest points to exists", () => {
  const files = [manifest.icon, ...contributes.walkthroughs.flatMap(({ steps }) => steps.map(({ media }) => media.image))];
  expect(files.filter((file) => !existsSync(join(ROOT, file)))).toEqual([]);
  const events = contributes.walkthroughs.flatMap(({ steps }) => steps.flatMap(({ completionEvents }) => completionEvents));
  expect(events.filter((event) => event.startsWith("onCommand:") && ![...declared, ...INTERNAL].includes(event.slice("onCommand:".length)))).toEqual([]);
});

test("the README has every setting and its default, and no other", () => {
  const readme = readFileSync(join(ROOT, "README.md"), "utf8");
  const named = [...readme.matchAll(/^\| `(timeleap\.[\w.]+)` \|/gm)].map(([, name]) => name);
  expect(named.sort()).toEqual(Object.keys(contributes.configuration.properties).sort());
});

test("the README is read in three minutes", () => {
  expect(readFileSync(join(ROOT, "README.md"), "utf8").split(/\s+/).length).toBeLessThanOrEqual(600);
});

test("the pictures of the README are there, and go into the package", () => {
  const pictures = [...readFileSync(join(ROOT, "README.md"), "utf8").matchAll(/!\[[^\]]+\]\(([^)]+)\)/g)].map(([, file]) => file!);
  const packed = readFileSync(join(ROOT, ".vscodeignore"), "utf8").split("\n");
  expect(pictures.length).toBeGreaterThan(2);
  expect(pictures.filter((file) => !existsSync(join(ROOT, file)) || !packed.includes(`!${file}`))).toEqual([]);
});

test("every declared tool of language models is registered, and every registered one is declared; those that change something ask first", async () => {
  const running = start();
  const tools = (contributes as unknown as { languageModelTools: { name: string; modelDescription: string }[] }).languageModelTools;
  expect([...lm.tools.keys()].sort()).toEqual(tools.map(({ name }) => name).sort());
  const asking = [...lm.tools].filter(([, tool]) => "prepareInvocation" in tool).map(([name]) => name);
  expect(asking).toEqual(tools.filter(({ modelDescription }) => modelDescription.includes("after the person has agreed")).map(({ name }) => name));
  await running.stop();
});

test("a row of a read-only copy says where it goes back, a row of any other session does not", () => {
  const entries = contributes.menus["view/item/context"]!;
  const going = entries.filter(({ command }) => /restore(WithOptions)?$|continueIn/.test(command));
  for (const { command, when } of going) {
    expect(when, command).toContain(command.includes("restore") ? "!timeleap.mirror" : "timeleap.mirror");
  }
  expect(new Set(going.map(({ command }) => command))).toEqual(new Set(["timeleap.restore", "timeleap.restoreWithOptions", "timeleap.continueInClaudeCode", "timeleap.continueInItsProgram"]));
});
