import MarkdownIt from "markdown-it";
import { expect, test } from "vitest";
import type { HistoryMessage, Message } from "timeleap-client";
import { inertMarkdown, plainMarkdown } from "../../src/shared/text/inert.js";
import { markdownOf, messageAsMarkdown, originalOf, rangeInMarkdown } from "../../src/shared/text/markdown.js";

/** Set as VS Code sets it for its preview. */
const preview = new MarkdownIt({ html: true, linkify: true });
type Token = ReturnType<typeof preview.parse>[number];

const inert = (text: string): string =>
  inertMarkdown(text)
    .map((run) => run.text)
    .join("");

function tokensOf(markdown: string, env: object = {}): Token[] {
  return preview.parse(markdown, env).flatMap((token) => [token, ...(token.children ?? [])]);
}

/** What a message has done to the page, beyond being on it. */
function harm(markdown: string, headings: readonly string[]): string[] {
  const env: { references?: object } = {};
  const tokens = tokensOf(markdown, env);
  const shown = tokens.filter(({ type, level }, index) => type === "inline" && tokens[index - 1]?.type === "heading_open" && tokens[index - 1]?.level === 0 && level === 1);
  const links = tokens.flatMap(({ type, attrs }) => (type === "link_open" ? [String(new Map(attrs).get("href"))] : []));
  return [
    ...tokens.filter(({ type }) => type.startsWith("html_")).map(({ type, content }) => `${type}: ${content}`),
    ...tokens.filter(({ type }) => type === "image").map(({ content }) => `image: ${content}`),
    ...Object.keys(env.references ?? {}).map((name) => `definition: ${name}`),
    ...links.filter((href) => /^(?!https?:|mailto:)[a-z][a-z\d+.-]*:/i.test(href)).map((href) => `link: ${href}`),
    ...headings.filter((heading) => !shown.some(({ content }) => content === heading)).map((heading) => `lost: ${heading}`),
  ];
}

const page = (...contents: unknown[]): string => markdownOf(contents.map((content, index) => ({ index, message: { role: "user", content } as Message })));
const headings = (count: number): string[] => Array.from({ length: count }, (_, index) => `${index} · User`);

/** With names that a report can show. */
const named = (texts: readonly string[]): [string, string][] => texts.map((text) => [JSON.stringify(text.slice(0, 60)), text]);

const HOSTILE = [
  "<style>* { display: none }</style>",
  "<script>alert(1)</script>",
  "a <!-- never closed",
  "<!DOCTYPE html>",
  "<?php",
  "<![CDATA[",
  "</details>",
  "<details><summary>x",
  "<a href=command:quit>x</a>",
  "<https://example.com/>",
  "    </style>",
  "```",
  "````\n```",
  "~~~",
  "~~~~ `x`",
  "  ```\nx",
  "- ```\n  x\n  ```\n  <style>\n  ```",
  "- a\n  ```\n<style>\n  ```",
  "> ```\n  ```\n<style>",
  "> ```\n> <style>\n> ```",
  "foo\n        ```\n        <style>",
  "1. x\n       ```\n<style>\n       ```",
  "```a`b\n<style>\n```",
  "\\`<style>`",
  "\\\\`x` `<style>``",
  "``<style>`",
  "a ` b\nc ` <style> ` d",
  "[a](b`c) <style> `d",
  '[a](b "`") <style> "`"',
  "http://a/`<style>`",
  "| `a | <style> | b` |\n|---|---|---|\n| `a | <style> | b` |",
  '[`x]: /url "`" <style>',
  "[x]: https://example.com 'y'\n\n[x]",
  "[\nx\n]: https://example.com\n\n[x]",
  "> [x]: https://example.com\n\n[x]",
  "- [x]: <https://example.com>\n\n[x]",
  "[x]\n\n[x]: command:workbench.action.quit",
  "[go](command:workbench.action.quit)",
  "[go](COMMAND:workbench.action.quit)",
  "[go](<command:workbench.action.quit>)",
  "[go](\ncommand:workbench.action.quit)",
  "[go](comm&#97;nd:workbench.action.quit)",
  "[go](\\command:workbench.action.quit)",
  "[go](vscode://ms.x/y)",
  "[go](vscode&colon;//ms.x/y)",
  "![x](https://example.com/x.png)",
  "![x][y]\n\n[y]: https://example.com/x.png",
  "\\![x](https://example.com/x.png)",
  "---\ntitle: <style>\n---",
  "&lt;style&gt; &#60;style>",
  "$$\n```\n$$\n<style>\n```",
  "$`$ <style> `$",
  "a\r<style>\rb",
  "a\r\r```\r\r<style>",
  "a\u2028<style>",
  "\u0000<style>\u0000",
  "<\u0000style>",
  "===",
  "x\n---",
  "\t```\n<style>",
  " \t```\n<style>\n ```\n<b>",
  "* * *\n<style>",
  "1)\n\n   ```\n<style>",
  "<".repeat(3_000),
  "`".repeat(3_001),
  "[".repeat(3_000),
];

test.each(named(HOSTILE))("on a page of Markdown this is only text: %s", (_, text) => {
  expect(harm(page("before", text, "after"), headings(3))).toEqual([]);
  expect(harm(page([{ type: "think", think: text }, { type: "text", text }, { type: "text", text: "and on" }], "after"), headings(2))).toEqual([]);
  const calls = [{ id: "1", type: "function", function: { name: text, arguments: text } }];
  const call: HistoryMessage = { index: 0, message: { role: "assistant", content: "", tool_calls: calls } as Message };
  const result: HistoryMessage = { index: 1, message: { role: "tool", content: text } };
  expect(harm(markdownOf([call, result, { index: 2, message: { role: "user", content: "after" } }]), ["0 · Assistant", "1 · Tool", "2 · User"])).toEqual([]);
});

test.each(named(HOSTILE))("neither a role nor a name nor a medium can be more than text: %s", (_, text) => {
  const message = { role: text, name: text, content: [{ type: text, [text]: { url: text } }] } as unknown as Message;
  expect(harm(`${messageAsMarkdown(0, message)}\n${messageAsMarkdown(1, { role: "user", content: "after" })}`, ["1 · User"])).toEqual([]);
  expect(harm(`# ${plainMarkdown(text)}\n`, [])).toEqual([]);
});

test("whatever is put together of such pieces is only text", () => {
  const pieces = [
    "`", "`", "`", "~", "<", ">", "!", "[", "]", "(", ")", "\\", "$", "|", ":", "-", "*", "+", "#", "_", "'", '"', " ", " ", "\t", "\n", "\n", "\r", "1.", "x", "/", "&", ";",
    "```", "~~~", "````", "   ", "    ", "\n\n", "- ", "1. ", "> ", "<b>", "<style>", "</b>", "<!--", "-->", "](", "]:", "[x]", "command:x", "http://a/", "www.a.de", "$$", "```\n", "\n```\n", "\n  ```\n", "\n   ", "&lt;", "---\n", "js",
  ];
  let seed = 20_26;
  const random = (below: number): number => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((seed / 2_147_483_648) * below);
  };
  const hostile = (): string => Array.from({ length: 1 + random(24) }, () => pieces[random(pieces.length)]).join("");
  for (let round = 0; round < ROUNDS; round += 1) {
    const [one, other] = [hostile(), hostile()];
    const contents = [one, [{ type: "text", text: other }, { type: "text", text: one }, { type: "think", think: one }, { type: "text", text: other }], "after"];
    expect({ one, other, harm: harm(page(...contents), headings(3)) }).toEqual({ one, other, harm: [] });
    expect(originalOf([{ index: 0, message: { role: "user", content: one } }], 0, 100_000)).toBe(`## 0 · User\n\n${restored(one)}\n`);
  }
});

const ROUNDS = Number(process.env["ROUNDS"] ?? 2_000);

/** A text as the page has it, but for what is escaped. */
function restored(text: string): string {
  const kept = text.trimEnd();
  const [first] = inertMarkdown(kept);
  return first?.from === undefined && kept !== "" ? inert(kept) : kept;
}

test.each([
  ["plain *words* and a < b, 1<2, <- and <3", undefined],
  ["```html\n<style>\n[x]: y\n```\nand `Map<string, Set<T>>` and ``a`<b>`` too", undefined],
  ["1. Do this:\n   ```html\n   <div>\n   ```\n2. Then that", undefined],
  ["| a | b |\n|---|---|\n| `Map<K>` | `<b>` |", undefined],
  ["see [the docs](https://example.com/a?b=c \"T\"), then `<b>`; [here](../x.md#y)", undefined],
  ["- [ ] one\n- [x] `two<T>`", undefined],
  ["a\n\n    indented\n\nb", undefined],
  ["Map<string> in prose", "Map&lt;string> in prose"],
  ["![x](y)", "&#33;[x](y)"],
  ["[x]: https://y", "[x]&#58; https://y"],
  ["[x](command:y)", "[x&#93;(command:y)"],
  ["costs $5, `<b>`", "costs $5, `&lt;b>`"],
  ["```\nnever closed <b>", "````\n```\nnever closed <b>\n````"],
  ["1. x\n    ```\n    <b>\n    ```", "````\n1. x\n    ```\n    <b>\n    ```\n````"],
  ["    <b>", "```\n    <b>\n```"],
])("%j is shown as it can be read", (text, shown) => {
  expect(inert(text)).toBe(shown ?? text);
});

test("a search finds what was escaped where it stands in the document", () => {
  const message = { role: "assistant", content: [{ type: "think", think: "a <b>\nc <d>" }, { type: "text", text: "say <style> twice: <style>" }] } as Message;
  const markdown = messageAsMarkdown(3, message);
  const at = (from: number, to: number): string => markdown.slice(...rangeInMarkdown(3, message, [from, to]));
  const all = "say <style> twice: <style>";
  expect(at(all.indexOf("<style>"), all.indexOf("<style>") + 7)).toBe("&lt;style>");
  expect(at(all.lastIndexOf("<"), all.lastIndexOf("<") + 1)).toBe("&lt;");
  expect(at(all.lastIndexOf("<") + 1, all.length)).toBe("style>");
  expect(at(0, all.length)).toBe("say &lt;style> twice: &lt;style>");
  const thought = all.length + 1;
  expect(at(thought + 8, thought + 11)).toBe("&lt;d>");
});

test("what is selected in a document is read in the message's own words", () => {
  const entries = ["x <b> &lt; y", "never <style>"].map((content, index) => ({ index, message: { role: "user", content } }));
  const markdown = markdownOf(entries);
  const said = (from: string, to: string): string => originalOf(entries, markdown.indexOf(from), markdown.indexOf(to) + to.length);
  expect(said("x &lt;", "b>")).toBe("x <b>");
  expect(said("x &lt;", "y")).toBe("x <b> &lt; y");
  expect(said("never", "style>")).toBe("never <style>");
  expect(said("y\n", "never &lt;style>")).toBe("y\n\n## 1 · User\n\nnever <style>");
  expect(originalOf(entries, 0, markdown.length)).toBe(markdown.replaceAll("&lt;b>", "<b>").replace("&lt;style", "<style"));
});

/** Units that a hostile text repeats. */
const PATHOLOGICAL = [
  ...["://", "a://", "www.", "[[", "](", "](a", "](https://a", '](# "', "![", "]:", "`", "` ``", "``` ", "`|", "\\`", "<", "<!--", "&", "*_", "|"],
  ...[" ", "\t", "> ", "- ", "1. ", "$", "$$", "@", "a@b.c ", '"', "\n", "\r", "\n\n", "\n>", "    a\n", "```\n", "~~~\n"],
];

const WORK: Record<string, (text: string) => unknown> = {
  inert: inertMarkdown,
  plain: plainMarkdown,
  user: (text) => messageAsMarkdown(0, { role: "user", content: text }),
  thought: (text) => messageAsMarkdown(0, { role: "assistant", content: [{ type: "think", think: text }] }),
  tool: (text) => messageAsMarkdown(0, { role: "tool", content: text }),
};

test.each(Object.keys(WORK))("%s: twice the text is not four times the work", (name) => {
  const least = (text: string): number => {
    const times = [0, 1].map(() => {
      const begun = process.cpuUsage();
      WORK[name]?.(text);
      const { user, system } = process.cpuUsage(begun);
      return user + system;
    });
    return Math.min(...times);
  };
  const ratio = (unit: string): number => {
    const before = least(unit.repeat(15_000 / unit.length));
    return before < 30_000 ? 0 : least(unit.repeat(30_000 / unit.length)) / before; // what is done in 30 ms is no quadratic work
  };
  expect(PATHOLOGICAL.filter((unit) => [0, 1, 2].every(() => ratio(unit) > 3))).toEqual([]);
});

test("a megabyte of backticks and brackets is shown", () => {
  expect(inert("` ".repeat(500_000)).length).toBeGreaterThanOrEqual(1_000_000);
  expect(inert("](".repeat(500_000)).length).toBeGreaterThan(1_000_000);
});
