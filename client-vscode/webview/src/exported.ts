/** The page that a session is exported to: the page of the editor, in a file of its own. */

import type { Words, WordsOfFile } from "../../src/features/page/words.js";
import { make } from "./dom.js";
import { Exhibit } from "./exhibit.js";
import { FileHost } from "./fileHost.js";
import { Page } from "./page.js";
import { speak } from "./words.js";

/** By language; put here when the page's script is made. */
declare const WORDS: Readonly<Record<"en" | "zh-cn", { readonly page: Words; readonly file: WordsOfFile }>>;

const language = navigator.languages.find((tag) => /^(?:en|zh)\b/iu.test(tag))?.toLowerCase().startsWith("zh") ? "zh-cn" : "en";
const { page, file } = WORDS[language];
speak(page, language === "zh-cn" ? "zh-CN" : "en");
const root = document.getElementById("page");
if (root) {
  try {
    new Page(root, new FileHost(new Exhibit(), file), true);
  } catch (error) {
    root.replaceChildren(make("p", { class: "broken" }, `${file.broken} ${String(error)}`));
  }
}
