"""Why a database refuses, from its SQLSTATE or, of a connection that was not made, from its words; and whether that may
pass by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

import psycopg

Reason = Literal[
    "unreachable",
    "authentication",
    "rights",
    "newerSchema",
    "readOnly",
    "full",
    "lost",
    "busy",
    "timeout",
    "pooler",
    "refused",
]
"""Why a store cannot be used, as `data.reason` has it."""


class Refusal(NamedTuple):
    """A reason, and whether the same request may succeed later."""

    reason: Reason
    retryable: bool = False


_STATES: Final[Mapping[str, Refusal]] = {
    "08": Refusal("lost", True),
    "25006": Refusal("readOnly"),
    "25P03": Refusal("lost", True),  # idle in a transaction for too long
    "25P04": Refusal("timeout", True),
    "26000": Refusal("lost", True),  # the connection has forgotten a prepared statement
    "28": Refusal("authentication"),
    "3D000": Refusal("authentication"),
    "3F000": Refusal("rights"),
    "40": Refusal("busy", True),  # serialization, deadlock
    "42501": Refusal("rights"),
    "42P01": Refusal("rights"),
    "53": Refusal("busy", True),  # memory, connections
    "53100": Refusal("full"),
    "53400": Refusal("full"),
    "55006": Refusal("busy", True),
    "55P03": Refusal("busy", True),
    "57": Refusal("lost", True),  # shutdown, crash, starting up, idle for too long
    "57014": Refusal("timeout", True),
    "57P04": Refusal("authentication"),  # the database was dropped
}
"""By SQLSTATE, or by its class where that has none of its own. What is in neither stays until somebody changes
something."""

_WORDS: Final[tuple[tuple[str, Refusal], ...]] = (
    ("too many clients", Refusal("busy", True)),
    ("too many connections", Refusal("busy", True)),
    ("connection slots", Refusal("busy", True)),
    ("no more connections allowed", Refusal("busy", True)),
    ("the database system is", Refusal("unreachable", True)),  # starting up, shutting down, in recovery
    ("is not yet accepting connections", Refusal("unreachable", True)),
    ("terminating connection", Refusal("unreachable", True)),
    ("canceling authentication", Refusal("unreachable", True)),
    ("server is in hot standby", Refusal("readOnly")),
    ("session is read-only", Refusal("readOnly")),
    ("authentication failed", Refusal("authentication")),
    ("no password supplied", Refusal("authentication")),
    ("no pg_hba.conf entry", Refusal("authentication")),
    ("not permitted to log in", Refusal("authentication")),
    ("does not support SSL", Refusal("authentication")),
    ("SSL error", Refusal("authentication")),
    ("certificate", Refusal("authentication")),
    ("unsupported startup parameter", Refusal("pooler")),
    ("no such database", Refusal("authentication")),
    ("no such user", Refusal("authentication")),
    ("does not exist", Refusal("authentication")),
    ("permission denied", Refusal("rights")),
    ("not currently accepting connections", Refusal("rights")),
    ("Name or service not known", Refusal("unreachable")),
    ("nodename nor servname", Refusal("unreachable")),
    ("No address associated", Refusal("unreachable")),
)
"""Words of a server, libpq or psycopg about a connection that was not made; such errors carry no SQLSTATE. The first
counts."""


def of_statement(error: psycopg.Error) -> Refusal:
    """Why a statement was refused."""
    state = error.sqlstate
    if state is None:
        lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
        return Refusal("lost", True) if lost else Refusal("refused")
    return _STATES.get(state) or _STATES.get(state[:2]) or Refusal("refused")


def of_connection(error: psycopg.Error) -> Refusal:
    """Why there is no connection."""
    if error.sqlstate is not None:
        return of_statement(error)
    text = str(error)
    found = next((refusal for words, refusal in _WORDS if words in text), None)
    return found or Refusal("unreachable", True)
