/** Paths of workspace files, as the server names them and as a person reads them. */

import { homedir } from "node:os";
import { join, sep } from "node:path";
import { fileURLToPath } from "node:url";
import type { FilePath } from "timeleap-client";
import { oneLine } from "./format.js";

/** Characters of a path: few enough that what stands behind it can be seen, too. */
const SHOWN = 300;

/** A path of this machine, in the short form of what is in the user's own directory. */
export function inShort(path: string): string {
  const home = homedir() + sep;
  return path.startsWith(home) ? `~${sep}${path.slice(home.length)}` : path;
}

/** As a person reads it: a name that is not UTF-8 has a mark where a byte cannot be shown. */
export function shownPath({ path, pathEncoding }: Pick<FilePath, "path" | "pathEncoding">): string {
  return oneLine(pathEncoding === undefined ? path : new TextDecoder().decode(bytesOf(path)), SHOWN);
}

/** The name and the folder it is in ("" at the root), as a person reads them. */
export function nameAndFolder(file: Pick<FilePath, "path" | "pathEncoding">): readonly [string, string] {
  const path = shownPath(file);
  const slash = path.lastIndexOf("/");
  return [path.slice(slash + 1), path.slice(0, Math.max(0, slash))];
}

/**
 * Where it is on the disk. Undefined: the editor has no way to name it (not UTF-8), or it would be outside the root, as what
 * somebody else has written into the store may say.
 */
export function diskPath({ path, pathEncoding, root }: FilePath, onlyRoot: string | undefined): string | undefined {
  const base = root ?? onlyRoot;
  const inside = path.split("/").every((part) => part !== "" && part !== "." && part !== ".." && !part.includes("\0"));
  if (pathEncoding !== undefined || base?.startsWith("file:") !== true || !inside) {
    return undefined;
  }
  return join(fileURLToPath(base), path);
}

/** What is told back to the server to name the same file. */
export function named({ path, pathEncoding, root }: FilePath): FilePath {
  return { path, ...(pathEncoding === undefined ? {} : { pathEncoding }), ...(root === undefined ? {} : { root }) };
}

function bytesOf(encoded: string): Uint8Array {
  const bytes: number[] = [];
  for (const [part] of encoded.matchAll(/%[\da-f]{2}|[^%]+|%/giu)) {
    bytes.push(...(/^%[\da-f]{2}$/iu.test(part) ? [Number.parseInt(part.slice(1), 16)] : Buffer.from(part)));
  }
  return Uint8Array.from(bytes);
}
