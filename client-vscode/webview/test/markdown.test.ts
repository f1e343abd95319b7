import { expect, test } from "vitest";
import { tokensOf, type Token } from "../src/markdown.js";

/** Names of the elements that Markdown becomes. */
function elements(text: string): string[] {
  const named = (tokens: readonly Token[]): string[] => tokens.flatMap((token) => [token.hidden || token.type === "image" ? "" : token.tag, ...named(token.type === "image" ? [] : (token.children ?? []))]);
  return [...new Set(named(tokensOf(text)))].filter((name) => name !== "").sort();
}

test("what Markdown is for is rendered", () => {
  expect(elements("# h\n\n**b** _i_ `c`\n\n- l\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```js\nx\n```")).toEqual(["code", "em", "h1", "li", "p", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"]);
});

test("HTML is text, and pictures are named", () => {
  expect(elements("<script>x</script>\n\n<img src=x onerror=y> <b>b</b>\n\n![alt](https://harm.invalid/x.png \"title\")")).toEqual(["p"]);
});

test("links lead to the web or to mail, and nowhere else", () => {
  for (const url of ["javascript:x", "command:workbench.action.quit", "file:///etc/passwd", "data:text/html,x", "vscode://x", "//harm.invalid", "JaVaScRiPt:x", "java&#10;script:x"]) {
    expect([url, elements(`[x](${url})`).includes("a")]).toEqual([url, false]);
  }
  expect(elements("[x](https://example.org) <https://example.org>")).toEqual(["a", "p"]);
  expect(elements("[x](mailto:a@example.org)")).toEqual(["a", "p"]);
});
