import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { seed, turns } from "../support/data.js";
import { start, type Running } from "../support/extension.js";
import { commands, user, workspace } from "../support/vscode.js";
import { labels, open, sessionList } from "./support.js";
import { FakePage } from "./fakePage.js";

let running: Running;

beforeEach(() => {
  user.reset();
  running = start();
});

afterEach(() => running.stop());

const WAIT = { timeout: 20_000, interval: 50 };
const revealed = (): (string | undefined)[] => user.revealed.map((node) => running.tree("checkpoints").getTreeItem(node as never).label as string);

test("of 10 000 checkpoints any is one step away: by its words, or the oldest at once; the tree draws those near it", async () => {
  seed(running.home, "long", turns(10_000));
  await open("long");
  await running.rows("checkpoints");
  await commands.executeCommand("timeleap.goToCheckpoint");
  const [box] = user.picks;
  await vi.waitFor(() => expect(box!.items).toHaveLength(101), WAIT);
  box!.choose("Beginning");
  await vi.waitFor(() => expect(revealed()).toEqual(["question 0"]), WAIT);
  const rows = labels(await running.rows("checkpoints"));
  expect(rows.length).toBeLessThan(300);
  expect([rows[0], rows[99], rows[100], rows.at(-1)]).toEqual(["question 9999", "question 9900", "… and 9,849 checkpoints more", "question 0"]);

  await commands.executeCommand("timeleap.goToCheckpoint");
  const [, second] = user.picks;
  second!.type("answer 4711");
  expect(second!.items).toEqual([]);
  second!.choose("answer 4711"); // a click that came just after the list had gone
  await vi.waitFor(() => expect(second!.items.map(({ label }) => label)).toContain("answer 4711"), WAIT);
  second!.choose("answer 4711");
  await vi.waitFor(() => expect(revealed()).toEqual(["question 0", "question 4711"]), WAIT);
  const near = labels(await running.rows("checkpoints"));
  expect(near).toContain("question 4700");
  expect(near.filter((label) => label.endsWith(" more"))).toEqual(["… and 5,138 checkpoints more", "… and 4,662 checkpoints more"]);
});

test("only checkpoints after which the words stand are shown, until all are again; going to one shows all, too", async () => {
  seed(running.home, "chat", turns(250));
  await open("chat");
  await running.rows("checkpoints");
  await commands.executeCommand("timeleap.goToCheckpoint");
  const box = user.picks.at(-1)!;
  box.type("answer 13");
  box.press("Show only the checkpoints after which these words stand");
  const found = ["Show all checkpoints", "question 139", "question 138", "question 137", "question 136", "question 135", "question 134", "question 133", "question 132", "question 131", "question 130", "question 13"];
  await vi.waitFor(async () => expect(labels(await running.rows("checkpoints"))).toEqual(found), WAIT);
  expect(user.trees.get("timeleap.checkpoints")!.message).toContain("Only checkpoints with “answer 13”: 11 messages found.");
  await commands.executeCommand("timeleap.showMore", (await running.rows("checkpoints"))[0]!.node);
  await vi.waitFor(async () => expect(labels(await running.rows("checkpoints")).length).toBeGreaterThan(99), WAIT);
  expect(labels(await running.rows("checkpoints"))).not.toContain("Show all checkpoints");
});

test("any two states are compared in the page, the earlier one on the left; of two sessions, too", async () => {
  seed(running.home, "chat", turns(6));
  await open("chat");
  const rows = await running.rows("checkpoints");
  const choose = (...names: readonly string[]): void => void (user.pick = (items) => items.find((item) => names.some((name) => (item as { label: string }).label.includes(name))));
  choose("question 4");
  await commands.executeCommand("timeleap.compare", rows[3]!.node);
  const page = new FakePage();
  page.say({ kind: "ready" });
  const compared = await page.next("comparison");
  expect(compared).toMatchObject({ names: ["question 2", "question 4"], common: 4, removedCount: 0, addedCount: 4 });

  page.forget();
  user.trees.get("timeleap.checkpoints")!.selection = [rows[0]!.node, rows[4]!.node];
  await commands.executeCommand("timeleap.compare", rows[0]!.node);
  expect(await page.next("comparison")).toMatchObject({ names: ["question 1", "question 5"] });
  page.forget();
  choose("Present");
  await commands.executeCommand("timeleap.compare", rows[1]!.node); // which is not among the two selected ones
  expect(await page.next("comparison")).toMatchObject({ names: ["question 4", "Present"], removedCount: 0, addedCount: 4 });

  seed(running.home, "other", turns(2));
  page.forget();
  user.pick = (items) => items.find((item) => /Another session|^other$/u.test((item as { label: string }).label));
  await commands.executeCommand("timeleap.compare", rows[1]!.node);
  expect(await page.next("comparison")).toMatchObject({ names: ["chat: question 4", "other: Present"], common: 4, removedCount: 4, addedCount: 0 });
});

test("the order of the rows is a setting", async () => {
  seed(running.home, "chat", turns(3));
  await open("chat");
  const newest = await running.rows("checkpoints");
  workspace.changeSetting("timeleap.order", "oldestFirst");
  await vi.waitFor(async () => expect(labels(await running.rows("checkpoints"))).toEqual(labels(newest).reverse()), WAIT);
});

test("one session has one token number, in the status bar and in the list", async () => {
  seed(running.home, "chat", turns(3));
  await open("chat");
  await running.api.shownSession!.append({ role: "user", content: "x".repeat(8_000) });
  const bar = (): string => user.statusBar.find(({ id }) => id === "timeleap.tokens")!.text.replace(/^\$\(\w+\) /u, "");
  await vi.waitFor(() => expect(bar()).not.toBe("300"), WAIT);
  await vi.waitFor(async () => expect((await sessionList()).find(({ label }) => label === "chat")!.description).toContain(`${bar()} tokens`), WAIT);
});

test("where no model has reported tokens, every place says the estimate of the status bar, and none says 0", async () => {
  seed(running.home, "chat", [{ role: "_checkpoint", id: 0 }, { role: "user", content: "x".repeat(4_000) }, { role: "_checkpoint", id: 1 }, { role: "user", content: "y".repeat(4_000) }]);
  seed(running.home, "other", turns(1));
  await open("other");
  const offered: unknown[] = [];
  user.pick = (items) => {
    offered.push(...(items as { label: string; description: string }[]).filter(({ label }) => label === "chat").map(({ description }) => description));
    return items.find((item) => (item as { label: string }).label === "chat");
  };
  await commands.executeCommand("timeleap.openSession");
  await commands.executeCommand("timeleap.openSession");
  expect(offered).toEqual([expect.stringContaining("2K tokens"), expect.stringContaining("2K tokens")]);
  const bar = user.statusBar.find(({ id }) => id === "timeleap.tokens")!;
  expect(bar.text).toBe("$(dashboard) 2K");
});
