"""Names: of sessions, of what lies in the trash, of forks and automatic checkpoints."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from timeleap import clock
from timeleap.errors import InvalidSessionIdError
from timeleap.message_text import texts

_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_TRASHED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,63})~(\d{8}T\d{6}\.\d{6})(?:-[0-9a-f]{4})?")
_STAMP = "%Y%m%dT%H%M%S.%f"
_LABEL_LENGTH = 60
_TITLE_LENGTH = 1000

# Windows opens the device whatever the extension; refused everywhere, so that a store can be moved there.
_DEVICES = frozenset(
    ["con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))]
)


def is_session_id(text: str) -> bool:
    """True if `text` can be the id of a session."""
    return (
        _SESSION_ID.fullmatch(text) is not None
        and not text.endswith(".")
        and text.partition(".")[0].casefold() not in _DEVICES
    )


def check_session_id(text: str) -> str:
    """`text` itself.

    Raises:
        InvalidSessionIdError: It cannot be the id of a session.
    """
    if not is_session_id(text):
        raise InvalidSessionIdError(
            f"session id {text[:80]!r} is not usable: 1 to 64 letters, digits, '.', '_' or '-', the first a letter or "
            "digit, the last no dot, and no reserved device name",
            sessionId=text[:200],
        )
    return text


def new_session_id() -> str:
    """An id nobody has: the time, so that names sort by age, and 8 random digits."""
    return f"{datetime.fromtimestamp(clock.now(), UTC):%Y%m%d-%H%M%S}-{clock.new_uid(8)}"


def trash_name(session_id: str) -> str:
    """The name of a session's directory in the trash: unique, and later ones sort after earlier ones."""
    return f"{session_id}~{datetime.fromtimestamp(clock.now(), UTC):{_STAMP}}-{clock.new_uid(4)}"


def parse_trash_name(name: str) -> tuple[str, str] | None:
    """The session id and the ISO-8601 time of deletion a trash directory's name says, or None for other names."""
    match = _TRASHED.fullmatch(name)
    if match is None or not is_session_id(match[1]):
        return None
    try:
        deleted = datetime.strptime(match[2], _STAMP).replace(tzinfo=UTC)
    except ValueError:
        return None
    return match[1], clock.iso(deleted.timestamp())


def fork_title(title: str | None, session_id: str) -> str:
    """The title of a fork nobody gave a title."""
    return f"{title or session_id} (fork)"[:_TITLE_LENGTH]


def first_words(message: Mapping[str, Any]) -> str | None:
    """A label made of the beginning of a message's text, at most 60 characters, or None without text."""
    # Megabytes of white space before the first word are not worth splitting.
    words = " ".join(" ".join(texts(message))[: 20 * _LABEL_LENGTH].split())
    if len(words) <= _LABEL_LENGTH:
        return words or None
    start = words[: _LABEL_LENGTH - 1]
    if words[_LABEL_LENGTH - 1] != " ":  # cut through a word: leave that out, unless there is no other
        start = start.rpartition(" ")[0] or start
    return start + "…"
