/** One folder, one URI: the table that the Python package is tested with, too. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { canonicalFolderUri } from "../src/index.js";

const TABLE = JSON.parse(readFileSync(join(__dirname, "..", "..", "..", "folder-uris.json"), "utf8")) as {
  canonical: string;
  spellings: string[];
}[];

for (const { canonical, spellings } of TABLE) {
  test(`all spellings of ${JSON.stringify(canonical)} have one form`, () => {
    for (const spelling of [canonical, ...spellings]) {
      assert.equal(canonicalFolderUri(spelling), canonical, spelling);
    }
  });
}

test("Node's own URIs are their folder's", () => {
  const names = ["a b", "@x", "c++", "(2)", "a=b&c", "~", "100%", "é", "#1", "what?", "[x]", "a;b,c", "'"];
  for (const name of names) {
    const uri = canonicalFolderUri(pathToFileURL(`/home/me/${name}`).href);
    assert.equal(canonicalFolderUri(uri), uri);
    assert.equal(canonicalFolderUri(`file:///home/me/${encodeURIComponent(name)}/`), uri);
  }
});
