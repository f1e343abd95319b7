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
}

export function stringsOfSources(): Strings {
  const texts = new Set<string>();
  const computed: string[] = [];
  for (const name of readdirSync(join(ROOT, "src"), { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".ts"))) {
    const source = ts.createSourceFile(name, readFileSync(join(ROOT, "src", name), "utf8"), ts.ScriptTarget.Latest);
    const visit = (node: ts.Node): void => {
      if (ts.isCallExpression(node) && /\bl10n\.t$/.test(node.expression.getText(source))) {
        const [text] = node.arguments;
        if (text && ts.isStringLiteralLike(text)) {
          texts.add(text.text);
        } else {
          computed.push(`${name}: ${node.getText(source)}`);
        }
      }
      ts.forEachChild(node, visit);
    };
    visit(source);
  }
  return { texts, computed };
}
