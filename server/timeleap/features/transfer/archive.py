"""The native form: one ZIP archive with a session's very bytes, and a manifest in front that says what they must be.

::

    manifest.json       {"format": "timeleap-session", "version": 1, "exportedAt", "session": {...}, "members": [...]}
    context.jsonl       the live log
    context_3.jsonl     timelines, oldest first, under their names
    state.json          title, sub-agents and what the original keeps there; no approvals
    timeleap.json       workspace, pins, facts of the timelines, ...; no seals, no request ids

`members` lists all others with `name`, `bytes` and `sha256`. Names are from a closed set and have no directories. No
archive unpacks to more than `MAX_RATIO` times its own size: what deflate would shrink further is stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from timeleap.sessions.session_files import classify

MANIFEST: Final = "manifest.json"
FORMAT: Final = "timeleap-session"
VERSION: Final = 1

MAX_RATIO: Final = 200
MAX_MEMBERS: Final = 20_000
MAX_DOCUMENT: Final = 16 << 20
"""Bytes of a JSON document in an archive."""

STATE: Final = "state.json"
NOTES: Final = "timeleap.json"
LIVE: Final = "context.jsonl"


@dataclass(frozen=True, slots=True)
class Listed:
    """The manifest's entry for a member."""

    name: str
    bytes: int
    sha256: str

    def document(self) -> dict[str, Any]:
        """As it stands in the manifest."""
        return {"name": self.name, "bytes": self.bytes, "sha256": self.sha256}


def is_log(name: str) -> bool:
    """True if a member of that name is a log."""
    return name == LIVE or is_timeline(name)


def is_timeline(name: str) -> bool:
    """True if a member of that name is a timeline."""
    return classify(name)[0].kind == "timeline"


def is_member(name: str) -> bool:
    """True if an archive may have a member of that name."""
    return name == MANIFEST or classify(name)[0].exported
