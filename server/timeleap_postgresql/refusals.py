"""Why a database refuses, from its SQLSTATE, and whether that may pass by itself.

Of a connection that was not made libpq has words only: those that a server says in English, a pooler, and libpq itself are
known here. For others the server is asked once more (`refused_state`).
"""

from __future__ import annotations

import re
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
    "55000": Refusal("rights"),  # the database takes no connections
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
    ("pg_hba.conf rejects", Refusal("authentication")),
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
    ("service file", Refusal("unreachable")),  # what follows is wrong in the URL, in a service file, or in a variable
    ("definition of service", Refusal("unreachable")),
    ("invalid port number", Refusal("unreachable")),
    ("invalid integer value", Refusal("unreachable")),
    ('value: ""', Refusal("unreachable")),
    ("could not match", Refusal("unreachable")),  # numbers of hosts and ports
)
"""Words of a server, libpq or psycopg about a connection that was not made; such errors carry no SQLSTATE. The first
counts."""
_SEVERITY: Final = re.compile(r'(?:^|: )[^:"\n]{2,40}:  ', re.MULTILINE)
"""FATAL, in any language; libpq has two blanks behind it."""
_NAMES: Final = re.compile(r'"[^"]*"')
"""Names of databases, roles and hosts, which are no words of a server."""


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
        refusal = of_statement(error)
        return Refusal("unreachable", True) if refusal.reason == "lost" else refusal
    connection = error.pgconn if isinstance(error, psycopg.OperationalError) else None
    if connection is not None and is_unclear(error) and (connection.needs_password or connection.used_password):
        return Refusal("authentication")
    return _by_words(error) or Refusal("unreachable", True)


def is_of_server(error: psycopg.Error) -> bool:
    """True of a connection that a server, or a pooler, has answered by a refusal."""
    return _SEVERITY.search(str(error)) is not None


def is_unclear(error: psycopg.Error) -> bool:
    """True of a refusal in words that are not known here."""
    return is_of_server(error) and _by_words(error) is None


def first_line(error: psycopg.Error) -> str:
    """The words of a refusal, in one line, without who says them, and without hints and details."""
    text = (error.diag.message_primary or str(error)).strip()
    said = _SEVERITY.search(text)
    if said is not None:
        text = text[said.end() :].strip()
    return text.splitlines()[0].strip() if text else "no reason given"


def _by_words(error: psycopg.Error) -> Refusal | None:
    text = _NAMES.sub('""', str(error))
    return next((refusal for words, refusal in _WORDS if words in text), None)
