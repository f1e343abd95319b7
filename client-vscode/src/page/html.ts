/** The page before it is told anything: its style, its script and its words. */

import type { Words } from "./words.js";

export interface Resources {
  readonly script: string;
  readonly style: string;
}

/**
 * Nothing is fetched and only this script runs, whatever a message holds: pictures are those in messages, and there is no other
 * source of anything. Script and style stand in the page, so that it is painted without asking for them.
 */
export function pageHtml({ script, style }: Resources, words: Words, language: string, nonce: string): string {
  const policy = [
    "default-src 'none'",
    `script-src 'nonce-${nonce}'`,
    `style-src 'nonce-${nonce}'`,
    "img-src data:",
    "base-uri 'none'",
    "form-action 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types dompurify",
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
<script type="application/json" id="words">${JSON.stringify(words).replace(/[<>&\u2028\u2029]/gu, escaped)}</script>
<script nonce="${nonce}">${script.replace(/<\/script/giu, "<\\/script").replace(/<!--/gu, "<\\!--")}</script>
</body>
</html>
`;
}

function escaped(char: string): string {
  return `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
