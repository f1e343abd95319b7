import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ROOT, stringsOfSources } from "../support/strings.js";

type Texts = Record<string, string>;

const read = (file: string): Texts => JSON.parse(readFileSync(join(ROOT, file), "utf8")) as Texts;
const holes = (text: string): string[] => [...text.matchAll(/\{\d+\}/g)].map(([hole]) => hole).sort();

const sources = stringsOfSources();
const translated = read("l10n/bundle.l10n.zh-cn.json");
const english = read("package.nls.json");
const chinese = read("package.nls.zh-cn.json");
const manifest = readFileSync(join(ROOT, "package.json"), "utf8");

test("every text is a literal, so that it can be translated", () => {
  expect(sources.computed).toEqual([]);
  expect(sources.texts.size).toBeGreaterThan(100);
});

test("of one thing nothing is said in the plural", () => {
  // These numbers are limits, or more than one.
  const never = [/A pin has at most/, /A session has at most/, /The first \{0\} of \{1\} characters/, /Show \{0\} lines/, /More than \{0\} files/];
  expect(sources.unruly.filter((text) => !never.some((one) => one.test(text)))).toEqual([]);
});

test("what the server says in English is put into no sentence of ours", () => {
  expect(sources.mixed).toEqual([]);
});

test("every text of the sources has a translation, and no translation is left over", () => {
  expect(Object.keys(translated).sort()).toEqual([...sources.texts].sort());
});

test("what a person may have to read is not more than 350 texts", () => {
  expect(sources.texts.size + Object.keys(english).length).toBeLessThanOrEqual(350);
});

test("translations have the same holes", () => {
  expect(Object.entries(translated).filter(([text, other]) => String(holes(text)) !== String(holes(other)))).toEqual([]);
});

test("every text of the manifest is there in both languages, and none is left over", () => {
  const named = [...new Set([...manifest.matchAll(/"%([\w.]+)%"/g)].map(([, name]) => name!))].sort();
  expect(Object.keys(english).sort()).toEqual(named);
  expect(Object.keys(chinese).sort()).toEqual(named);
});

test("the manifest has no text of its own where a person would read it", () => {
  const { contributes } = JSON.parse(manifest) as { contributes: { commands: { title: string }[]; views: Record<string, { name: string }[]> } };
  const titles = [...contributes.commands.map(({ title }) => title), ...Object.values(contributes.views).flatMap((views) => views.map(({ name }) => name))];
  expect(titles.filter((title) => !/^%.+%$/.test(title))).toEqual([]);
});

test("buttons of welcome views are translated with their commands", () => {
  const links = (text: string): string[] => [...text.matchAll(/\]\((.+?)\)/g)].map(([, link]) => link!);
  expect(Object.entries(english).filter(([name, text]) => String(links(text)) !== String(links(chinese[name]!)))).toEqual([]);
});

test("one thing has one word in Chinese: 智能体, 令牌, 日志, 你", () => {
  const said = Object.values({ ...translated, ...chinese }).map((text) => text.replaceAll(/`[^`]*`|\([^)]*\)/g, ""));
  expect(said.filter((text) => /您|代理|词元|\btokens?\b|对话记录|还原/i.test(text))).toEqual([]);
});
