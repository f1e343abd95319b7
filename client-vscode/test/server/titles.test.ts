/** Buttons in the titles of views, and entries of rows' menus, called as the editor calls them. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { seed, turns } from "../support/data.js";
import { type Running, start } from "../support/extension.js";
import { ROOT } from "../support/strings.js";
import { commands, user } from "../support/vscode.js";
import { open } from "./support.js";

type Menus = Readonly<Record<string, readonly { readonly command: string }[]>>;
const { menus } = (JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { contributes: { menus: Menus } }).contributes;
const named = (menu: string): string[] => [...new Set(menus[menu]!.map(({ command }) => command))];
const GONE = "changed meanwhile";

let running: Running;

beforeEach(async () => {
  user.reset();
  running = start();
  seed(running.home, "chat", turns(2));
  await open("chat");
  user.said = [];
});

afterEach(() => running.stop());

// The editor passes the focused row, which is none before somebody has touched a row, and the selection, which it leaves out if
// it is one row or none.
test.each(named("view/title"))("%s acts from the title while no row has the focus", async (command) => {
  await commands.executeCommand(command, undefined, undefined);
  expect(user.said.filter(({ message }) => message.includes(GONE))).toEqual([]);
});

test.each(named("view/item/context"))("%s does nothing for a row that went while its menu was open", async (command) => {
  await commands.executeCommand(command, undefined, undefined);
  expect(user.said).toMatchObject([{ kind: "warning", message: expect.stringContaining(GONE) as string }]);
});

test("a button in a title is about the session, whichever row has the focus", async () => {
  const [row] = await running.rows("checkpoints");
  user.input = () => "by hand";
  await commands.executeCommand("timeleap.createCheckpoint", row!.node, undefined);
  const [newest] = await running.rows("checkpoints");
  expect(newest!.label).toContain("by hand");
});
