/** The strings of the sources that a person reads: the first argument of each `l10n.t`. */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";

export const ROOT = fileURLToPath(new URL("../..", import.meta.url));

export interface Strings {
  readonly texts: ReadonlySet<string>;
  /** Calls whose text is made at run time, which nobody can translate. */
  readonly computed: readonly string[];
  /** Texts with a number before a plural that are said of one thing, too. */
  readonly unruly: readonly string[];
  /** Texts with a hole that is filled with what the server says, which is English. */
  readonly mixed: readonly string[];
}

/** A number, words without a full stop, and a noun in the plural. */
const PLURAL = /\{\d\}(?: more)? (?:bytes|calls|characters|checkpoints|files|lines|messages|pins|sessions|steps|times|timelines|tokens|actions)\b/;
const SERVERS_WORDS = /\bmessageOf\(|\b(?:error|failure|reason)\.message\b|\.reason\b|\bunavailable\b/;

export function stringsOfSources(): Strings {
  const texts = new Set<string>();
  const computed: string[] = [];
  const unruly: string[] = [];
  const mixed: string[] = [];
  for (const name of readdirSync(join(ROOT, "src"), { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".ts"))) {
    const source = ts.createSourceFile(name, readFileSync(join(ROOT, "src", name), "utf8"), ts.ScriptTarget.Latest, true);
    const visit = (node: ts.Node): void => {
      if (ts.isCallExpression(node) && /\bl10n\.t$/.test(node.expression.getText(source))) {
        const [text, ...rest] = node.arguments;
        if (text && ts.isStringLiteralLike(text)) {
          texts.add(text.text);
          if (PLURAL.test(text.text) && !/^1 [^|]* \| /.test(text.text)) {
            unruly.push(`${name}: ${text.text}`);
          }
          if (rest.some((given) => SERVERS_WORDS.test(given.getText(source)))) {
            mixed.push(`${name}: ${text.text}`);
          }
        } else {
          computed.push(`${name}: ${node.getText(source)}`);
        }
      }
      ts.forEachChild(node, visit);
    };
    visit(source);
  }
  return { texts, computed, unruly, mixed };
}
