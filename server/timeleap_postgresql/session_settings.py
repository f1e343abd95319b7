"""The settings of each connection, whatever the defaults of the server, the database and the role are.

They are set after connecting, not by the startup parameter `options`: a pooler refuses or drops that one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

SETTINGS: Final[Mapping[str, str]] = {
    # What a stopped process holds locked is let go of, and nobody waits for ever.
    "lock_timeout": "10s",
    "statement_timeout": "120s",
    "idle_in_transaction_session_timeout": "60s",
    "default_transaction_isolation": "read committed",
    "default_transaction_deferrable": "off",
    "client_encoding": "UTF8",
    "datestyle": "ISO, YMD",
    "intervalstyle": "postgres",
    "timezone": "UTC",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "standard_conforming_strings": "on",
    # A statement from which a policy would hide rows fails: else sessions were missing, and nobody was told.
    "row_security": "off",
}
"""Values by the names of PostgreSQL."""
SINCE_17: Final[Mapping[str, str]] = {"transaction_timeout": "0"}
TUNABLE: Final = frozenset(
    ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout", "transaction_timeout")
)
"""Where the user names these in `options` of the URL, the value is the user's. The others are what we rely on."""
SET_UP: Final = "SELECT set_config(name, value, false) FROM unnest(%s::text[], %s::text[]) AS given (name, value)"
"""Sets a connection, in one round trip."""
SET_UP_LOCALLY: Final = SET_UP.replace("false", "true")
"""Sets the transaction under way."""
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][\w.\-]*)=(.*)", re.DOTALL)


def given_settings(options: str) -> tuple[dict[str, str], list[str]]:
    """The settings in a startup parameter `options`, such as `-c search_path=app`, and the words in it that are none."""
    words = [re.sub(r"\\(.)", r"\1", word, flags=re.DOTALL) for word in re.findall(r"(?:\\.|[^\s\\])+", options)]
    found: dict[str, str] = {}
    others: list[str] = []
    while words:
        word = words.pop(0)
        text = word
        if word == "-c" and words:
            text = words.pop(0)
        elif word.startswith(("-c", "--")):
            text = word[2:]
        assignment = _ASSIGNMENT.fullmatch(text)
        if assignment is None or text == word:
            others.append(word)
        else:
            found[assignment[1].replace("-", "_").lower()] = assignment[2]
    return found, others


def to_set(given: Mapping[str, str], server_version: int, *, user_too: bool) -> list[list[str]]:
    """The names and the values that `SET_UP` takes.

    Args:
        given: The user's own settings.
        server_version: As libpq says it, such as 150004.
        user_too: The user's own ones are among them, as a pooler does not pass them on.
    """
    ours = {**SETTINGS, **(SINCE_17 if server_version >= 170_000 else {})}
    kept = {name: value for name, value in ours.items() if name not in TUNABLE or name not in given}
    if user_too:
        kept |= {name: value for name, value in given.items() if name not in kept}
    return [list(kept), list(kept.values())]
