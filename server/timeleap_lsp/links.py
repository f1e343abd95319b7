"""Links from tool calls to the files that they name."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import quote

from lsprotocol import types

from timeleap.json_value import Json
from timeleap.summaries.calls import calls_in
from timeleap_lsp.record_lines import RecordLines
from timeleap_protocol.folder_uri import folder_of

MOST_LINES: Final = 500
MOST: Final = 500


def links(transcript: RecordLines, workspace: str | None, units: str) -> list[types.DocumentLink]:
    """Links of the newest lines with tool calls.

    Args:
        workspace: URI of the folder that relative names are below; None: those are left out.
        units: How the editor counts characters: `utf-8`, `utf-16` or `utf-32`.
    """
    root = folder_of(workspace) if workspace else None
    found: list[types.DocumentLink] = []
    start = max(0, transcript.count - MOST_LINES)
    for line in range(start, transcript.count):
        body = transcript.body(line)
        if body is not None and (b'"tool_calls"' in body or b'"tool_use"' in body or b'call"' in body):
            found += _of_line(line, body.decode("utf-8", "replace"), transcript.record(line)[0] or {}, root, units)
        if len(found) >= MOST:
            break
    return found[:MOST]


def _of_line(line: int, text: str, record: Json, root: Path | None, units: str) -> list[types.DocumentLink]:
    found = []
    for call in calls_in(record):
        for name in call.files:
            path = Path(name) if Path(name).is_absolute() else root and root / name
            at = text.find(name)
            if path is not None and at >= 0:
                begin, end = (width(text[:stop], units) for stop in (at, at + len(name)))
                place = types.Range(types.Position(line, begin), types.Position(line, end))
                found.append(types.DocumentLink(place, target="file://" + quote(path.as_posix())))
    return found


def width(text: str, units: str) -> int:
    """The length of a text as an editor counts it."""
    if units == "utf-8":
        return len(text.encode("utf-8", "surrogatepass"))
    if units == "utf-16":
        return len(text.encode("utf-16-le", "surrogatepass")) // 2
    return len(text)
