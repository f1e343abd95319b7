/** The page in the editor. */

import type { FromPage, Kept, ToPage } from "../../src/features/page/wire.js";
import { Page } from "./page.js";

interface Editor {
  postMessage(message: FromPage): void;
  setState(state: Kept): void;
}
declare function acquireVsCodeApi(): Editor;

/** What the page came with. It stays nowhere else: what is redacted shall be gone. */
function takeFirst(): ToPage[] {
  const first = document.getElementById("first");
  first?.remove();
  return JSON.parse(first?.textContent ?? "[]") as ToPage[];
}

const root = document.getElementById("page");
if (root) {
  const editor = acquireVsCodeApi();
  new Page(root, {
    tell: (message) => editor.postMessage(message),
    keep: (state) => editor.setState(state),
    listen: (take) => {
      window.addEventListener("message", (event: MessageEvent<ToPage>) => take(event.data));
      editor.postMessage({ kind: "ready" });
      takeFirst().forEach(take);
    },
  });
}
