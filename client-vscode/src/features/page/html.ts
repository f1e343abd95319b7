/** The page before it is told anything: its style, its script and its words. */

import type { ToPage } from "./wire.js";
import type { Words } from "./words.js";

/** Makes the page, with what it is told before it has asked for anything. */
export type MakeHtml = (first: readonly ToPage[]) => string;

export interface Resources {
  readonly script: string;
  readonly style: string;
}

/**
 * Nothing is fetched and only this script runs, whatever a message holds: pictures are those in messages, and there is no other
 * source of anything. Script and style stand in the page, so that it is painted without asking for them.
 *
 * @param first what the page is told before it has asked for anything
 */
export function pageHtml({ script, style }: Resources, words: Words, language: string, nonce: string, first: readonly ToPage[] = []): string {
  const policy = [
    "default-src 'none'",
    `script-src 'nonce-${nonce}'`,
    `style-src 'nonce-${nonce}'`,
    "img-src data:",
    "base-uri 'none'",
    "form-action 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join("; ");
  return `<!DOCTYPE html>
<html lang="${language.replace(/[^\w-]/gu, "")}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width">
<title>Timeleap</title>
<style nonce="${nonce}">${style}</style>
</head>
<body>
<div id="page"></div>
<script type="application/json" id="words">${inScript(words)}</script>
${first.length > 0 ? `<script type="application/json" id="first">${inScript(first)}</script>\n` : ""}<script nonce="${nonce}">${script.replace(/<\/script/giu, "<\\/script").replace(/<!--/gu, "<\\!--")}</script>
</body>
</html>
`;
}

/** A page that says one thing, and runs nothing. */
export function noticeHtml(text: string, language: string): string {
  const shown = text.replace(/[<>&"]/gu, (char) => `&#${char.charCodeAt(0)};`);
  return `<!DOCTYPE html>
<html lang="${language.replace(/[^\w-]/gu, "")}">
<head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="default-src 'none'"><title>Timeleap</title></head>
<body><p>${shown}</p></body>
</html>
`;
}

function inScript(value: unknown): string {
  return JSON.stringify(value).replace(/[<>&\u2028\u2029]/gu, escaped);
}

function escaped(char: string): string {
  return `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
