"""The one form of a folder's URI: programs spell the URI of one folder in several ways, and it is to be the same folder.

`protocol/folder-uris.json` has the spellings that are tested; `protocol/typescript/src/folderUri.ts` does the same.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote_from_bytes, unquote_to_bytes, urlsplit

_HERE = frozenset(("", "localhost"))
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+):(.*)", re.DOTALL)
"""Of two characters at least: one is a drive."""
_AUTHORITY = re.compile(r"//([^/?#]*)(.*)", re.DOTALL)
_DRIVE = re.compile(r"/+([A-Za-z])(?::|%7C)(/.*)?", re.DOTALL)
_ESCAPED = re.compile(r"%[0-9A-Fa-f]{2}")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_SURROGATE = re.compile("[\ud800-\udfff]")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_PLAIN = "!$&'()*+,;=:@/~"
"""Characters of a path that need no escape, besides letters, digits and `-._` (RFC 3986, pchar)."""
_KEPT = ("%2F", "%5C", "%00")
"""Escapes that stay, since the character itself would be read as something else."""


@lru_cache(maxsize=4096)
def canonical_folder_uri(uri: str) -> str:
    """The form of a folder's URI by which it is kept and compared; the disk is not looked at.

    A `file:` URI: scheme and host in small letters, no `localhost`, a drive as in `file:///C:/Users`, `file://server/share`
    for a share, escapes only where they are needed, in capitals, no empty or `.` segment and no slash at the end. `..` stays:
    behind a link it does not lead to where it seems to. Of another scheme: capitals in escapes, no escaped letters,
    digits and `-._~`, all that is not ASCII escaped. What is no URI stays as it is.
    """
    found = _SCHEME.fullmatch(uri)
    if found is None:
        return uri
    scheme, rest = found[1].lower(), _SURROGATE.sub("\ufffd", found[2])
    return f"file://{_file(rest)}" if scheme == "file" else f"{scheme}:{_safely(rest)}"


def _file(rest: str) -> str:
    """Host and path, of what stands behind `file:`."""
    named = _AUTHORITY.fullmatch(rest)
    host, rest = (named[1], named[2]) if named else ("", rest)
    path, suffix = _split(rest)
    path = _decoded(path)
    host = _decoded(host).lower()
    if re.fullmatch(r"[a-z](:|%7c)", host):  # file://c:/Users, which names no host
        path, host = f"/{host}{path}", ""
    if host == "localhost":
        host = ""
    drive = None if host else _DRIVE.fullmatch(path.replace("%5C", "/"))
    if drive is not None:
        path = f"/{drive[1].upper()}:/{_joined(drive[2] or '')}"
    else:
        share = re.fullmatch(r"//+([^/]+)(/.*)?", path, re.DOTALL)
        if not host and share is not None:  # file:////server/share
            host, path = share[1].lower(), share[2] or ""
        path = f"/{_joined(path)}"
    return f"{host}{path}{_safely(suffix)}"


def _split(rest: str) -> tuple[str, str]:
    """The path, and the query or fragment behind it."""
    end = min((at for at in (rest.find("?"), rest.find("#")) if at >= 0), default=len(rest))
    return rest[:end], rest[end:]


def _decoded(text: str) -> str:
    """The text with escapes only where they are needed."""
    parts = re.split(r"(%2[Ff]|%5[Cc]|%00|\\)", _BAD_ESCAPE.sub("%25", text))
    for at, part in enumerate(parts):
        if part == "\\":
            parts[at] = "%5C"
        elif part.upper() in _KEPT:
            parts[at] = part.upper()
        else:
            parts[at] = quote_from_bytes(unquote_to_bytes(part), safe=_PLAIN)
    return "".join(parts)


def _joined(path: str) -> str:
    """The segments of a path, without those that say nothing."""
    return "/".join(segment for segment in path.split("/") if segment not in ("", "."))


def _safely(text: str) -> str:
    """What RFC 3986 calls the same in every scheme."""

    def normal(escaped: re.Match[str]) -> str:
        character = chr(int(escaped[0][1:], 16))
        return character if character in _UNRESERVED else escaped[0].upper()

    plain = _ESCAPED.sub(normal, text)
    return "".join(char if char.isascii() else quote_from_bytes(char.encode()) for char in plain)


def folder_of(uri: str) -> Path | None:
    """The folder that a `file:` URI names; None for what is none, or names none of this machine."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    raw = unquote_to_bytes(parts.path)
    if parts.scheme.lower() != "file" or parts.netloc.lower() not in _HERE or not raw or b"\0" in raw:
        return None
    if parts.query or parts.fragment:
        return None
    name = os.fsdecode(raw)
    if os.name == "nt":
        name = name.lstrip("/")
    path = Path(name)
    return path if path.is_absolute() else None
