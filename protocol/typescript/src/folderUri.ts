/**
 * The one form of a folder's URI: programs spell the URI of one folder in several ways, and it is to be the same folder.
 * `timeleap_protocol/folder_uri.py` does the same; `protocol/folder-uris.json` has the spellings that are tested.
 */

/** Of two characters at least: one is a drive. */
const SCHEME = /^([A-Za-z][A-Za-z0-9+.-]+):(.*)$/s;
const AUTHORITY = /^\/\/([^/?#]*)(.*)$/s;
const DRIVE = /^\/+([A-Za-z])(?::|%7C)(\/.*)?$/s;
const SHARE = /^\/\/+([^/]+)(\/.*)?$/s;
/** Bytes of a path that need no escape (RFC 3986, pchar). */
const PLAIN = /^[A-Za-z0-9\-._~!$&'()*+,;=:@/]$/;
const UNRESERVED = /^[A-Za-z0-9\-._~]$/;

/**
 * The form of a folder's URI by which it is kept and compared; the disk is not looked at. Of another scheme than `file:` only
 * what RFC 3986 calls the same is changed. What is no URI stays as it is.
 */
export function canonicalFolderUri(uri: string): string {
  const found = SCHEME.exec(uri);
  if (found === null) {
    return uri;
  }
  const scheme = found[1]!.toLowerCase();
  const rest = found[2]!;
  return scheme === "file" ? `file://${canonicalFile(rest)}` : `${scheme}:${safely(rest)}`;
}

/** Host and path, of what stands behind `file:`. */
function canonicalFile(all: string): string {
  const named = AUTHORITY.exec(all);
  const rest = named === null ? all : named[2]!;
  const end = rest.search(/[?#]/);
  const suffix = end < 0 ? "" : rest.slice(end);
  let path = decoded(end < 0 ? rest : rest.slice(0, end));
  let host = decoded(named?.[1] ?? "").toLowerCase();
  if (/^[a-z](:|%7c)$/.test(host)) {
    path = `/${host[0]}:${path}`; // file://c:/Users, which names no host
    host = "";
  }
  if (host === "localhost") {
    host = "";
  }
  const drive = host === "" ? DRIVE.exec(path.replaceAll("%5C", "/")) : null;
  if (drive !== null) {
    path = `/${drive[1]!.toUpperCase()}:/${joined(drive[2] ?? "")}`;
  } else {
    const share = host === "" ? SHARE.exec(path) : null;
    if (share !== null) {
      host = share[1]!.toLowerCase(); // file:////server/share
      path = share[2] ?? "";
    }
    path = `/${joined(path)}`;
  }
  return host + path + safely(suffix);
}

/** The text with escapes only where they are needed. */
function decoded(text: string): string {
  const parts = text.replace(/%(?![0-9A-Fa-f]{2})/g, "%25").split(/(%2[Ff]|%5[Cc]|%00|\\)/);
  return parts
    .map((part, at) => {
      if (at % 2 === 1) {
        return part === "\\" ? "%5C" : part.toUpperCase();
      }
      const bytes = Buffer.from(part).toString("latin1").replace(/%([0-9A-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
      return Array.from(bytes, (byte) => (PLAIN.test(byte) ? byte : escaped(byte))).join("");
    })
    .join("");
}

/** The segments of a path, without those that say nothing. */
function joined(path: string): string {
  return path
    .split("/")
    .filter((segment) => segment !== "" && segment !== ".")
    .join("/");
}

/** What RFC 3986 calls the same in every scheme. */
function safely(text: string): string {
  const plain = text.replace(/%([0-9A-Fa-f]{2})/g, (whole, hex: string) => {
    const character = String.fromCharCode(Number.parseInt(hex, 16));
    return UNRESERVED.test(character) ? character : whole.toUpperCase();
  });
  const bytes = Buffer.from(plain).toString("latin1");
  return bytes.replace(/[\u0080-\u00ff]/g, escaped);
}

function escaped(byte: string): string {
  return `%${byte.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`;
}
