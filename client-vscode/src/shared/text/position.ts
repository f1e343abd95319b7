/** Places in texts as the editor counts them. */

import * as vscode from "vscode";

/** Lines and characters of a range of offsets; whatever ends lines in the text, the editor may end them otherwise. */
export function rangeAt(text: string, [start, end]: readonly [number, number]): vscode.Range {
  return new vscode.Range(positionAt(text, start), positionAt(text, end));
}

function positionAt(text: string, offset: number): vscode.Position {
  const breaks = [...text.slice(0, offset).matchAll(/\r\n|\r|\n/g)];
  const last = breaks.at(-1);
  return new vscode.Position(breaks.length, offset - (last ? last.index + last[0].length : 0));
}
