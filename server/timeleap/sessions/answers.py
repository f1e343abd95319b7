"""What is kept of the answers to requests: whole ones of the last, and of older ones only what cannot be said anew (G12).

A result may hold the system prompt, all sub-agents, a summary: megabytes, a thousand times. What is large is left out
of what is stored, and taken from the session as it is when the request is repeated. Whoever got no answer asks again at
once: then that is what the answer was.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

REMEMBERED = 1000
"""Requests of a session."""
LARGE = 32 << 10
"""Characters of a member, as JSON, that is not kept."""
LARGE_IN_OLD = 256
MAX_CHARACTERS = 4 << 20
"""Of all results together; beyond it the older ones keep only what is small."""

REMADE = frozenset(
    {
        "revertTo", "clear", "restoreTimeline", "deliverDMail", "undo", "redo", "compact", "putSubagent", "removeSubagent", "setPins",
        "setYolo", "setAutoApprove",
    }
)  # fmt: skip
"""The methods whose results say what the session is like after them (see `Recall.result`)."""


@dataclass(frozen=True, slots=True)
class Known:
    """A request that was made.

    Attributes:
        fingerprint: As in `Guard`.
        method: The last part of the method's name.
        result: What it was answered with, its head that of then; None where it is to be made of the record at `line`.
        line: The record that carries the id.
        left_out: Members of the result that are to be said anew.
        size: Characters of `result` as JSON.
    """

    fingerprint: str
    method: str
    result: Mapping[str, Any] | None = None
    line: int = -1
    left_out: tuple[str, ...] = ()
    size: int = 0


def stored(fingerprint: str, method: str, result: Mapping[str, Any], large: int = LARGE) -> Known:
    """A request with what is kept of its result.

    Args:
        fingerprint: As in `Guard`.
        method: The last part of the method's name.
        result: What it was answered with.
        large: Characters of a member that is not kept.
    """
    if method == "sendDMail":
        result = {name: _cut(value, large) for name, value in result.items()}
    sizes = {name: len(json.dumps(value)) for name, value in result.items()}
    left_out = tuple(name for name, size in sizes.items() if size > large and method in REMADE)
    kept = {name: value for name, value in result.items() if name not in left_out} if left_out else result
    return Known(fingerprint, method, kept, left_out=left_out, size=sum(sizes[name] for name in kept))


class Remembered:
    """The last 1 000 requests of a session by id, oldest first."""

    def __init__(self) -> None:
        self._many: dict[str, Known] = {}
        self._size = 0

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._many

    def get(self, request_id: str) -> Known | None:
        """What is known of a request."""
        return self._many.get(request_id)

    def items(self) -> list[tuple[str, Known]]:
        """All of them, oldest first."""
        return list(self._many.items())

    def add(self, request_id: str, known: Known) -> None:
        """Remember a request as the newest; the oldest beyond 1 000 are forgotten."""
        for name in (request_id, next(iter(self._many), "") if len(self._many) >= REMEMBERED else ""):
            old = self._many.pop(name, None)
            self._size -= old.size if old is not None else 0
        self._many[request_id] = known
        self._size += known.size
        if self._size > MAX_CHARACTERS:
            self._shorten()

    def _shorten(self) -> None:
        """Keep the newest whole, up to half of what is allowed; of the others only what is small."""
        room = MAX_CHARACTERS // 2
        for name, known in reversed(self._many.items()):
            room -= known.size
            if room < 0 and known.result is not None:
                less = stored(known.fingerprint, known.method, known.result, LARGE_IN_OLD)
                self._many[name] = replace(less, left_out=tuple(dict.fromkeys((*known.left_out, *less.left_out))))
        self._size = sum(known.size for known in self._many.values())


def _cut(value: Any, large: int) -> Any:
    if isinstance(value, Mapping):
        return {name: _cut(one, large) for name, one in value.items()}
    return value[:large] if isinstance(value, str) else value
