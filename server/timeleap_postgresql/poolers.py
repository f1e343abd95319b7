"""Poolers between us and the server, such as pgbouncer: whether there is one, and what it does to a connection.

No pooler says that it is one. But each answers the startup of a connection itself, with a key for cancelling of its own,
so that the number of the process in that key is not the one which the server gives.

Nor does one say its mode. A connection that sometimes gets another process is one of transaction mode for certain. The
reverse cannot be seen from that: in a busy pool the same process may come back each time. So session mode counts only
where a notification reached a connection that did nothing: a pool in transaction mode has no connection to hand it to.
"""

from __future__ import annotations

import secrets
import selectors
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Literal

import psycopg
from psycopg import Connection, errors

Mode = Literal["none", "session", "transaction"]
"""How long a connection keeps the same process of the server: always, while it is open, or for a transaction."""

ROUNDS: Final = 4
"""How often a pooler could lend another process for a transaction, before it has to prove that it never does."""
HEARD_SECONDS: Final = 3.0
"""How long to wait for that proof, a notification; without it nothing breaks that a longer wait would mend."""
SECOND_SECONDS: Final = 3.0
"""How long to wait for a second connection of a pool."""
REFUSED: Final = ("unsupported startup parameter", "command-line options")
"""In the errors of pgbouncer, and of those made of it, and of RDS Proxy."""


class PoolerError(psycopg.OperationalError):
    """A pooler that cannot be used as it is set; the message says what to do."""


class PoolUsedUpError(psycopg.OperationalError):
    """A pooler that has no second connection for us."""


class KnownPoolers:
    """The modes that were found, by the parameters of a connection."""

    def __init__(self) -> None:
        self._modes: dict[str, Mode] = {}
        self._disproved: set[str] = set()
        self.lock = threading.RLock()
        """Held while a mode is being found: two that look at once would take each other's connections for a proof."""

    def get(self, options: dict[str, Any]) -> Mode | None:
        """None: it has to be found."""
        return "transaction" if repr(options) in self._disproved else self._modes.get(repr(options))

    def put(self, options: dict[str, Any], mode: Mode) -> None:
        """Keep what was found."""
        self._modes[repr(options)] = mode

    def disprove(self, options: dict[str, Any]) -> None:
        """A connection has forgotten what was prepared on it: whatever was found, its process is not its own."""
        self._disproved.add(repr(options))

    def forget(self) -> None:
        """A connection was lost: another pooler, or the same one with other settings, may be there now."""
        self._modes.clear()


KNOWN: Final = KnownPoolers()


def refuses_options(error: psycopg.Error) -> bool:
    """True of the error of a pooler that takes no startup parameter `options`."""
    text = str(error)
    return "options" in text and any(part in text for part in REFUSED)


def process_of(connection: Connection[Any]) -> int:
    """The number of the server's process that answers. Raises psycopg.Error."""
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    return 0 if row is None else int(row[0])


def find_mode(first: Connection[Any], process: int, connect: Callable[[], Connection[Any]]) -> Mode:
    """The mode of a pooler.

    Args:
        first: A connection through it, on which nothing is under way.
        process: The one that has answered there.
        connect: Makes a second connection.

    Raises:
        PoolerError: It is in statement mode.
        PoolUsedUpError: There is no second connection.
        psycopg.Error: Whatever else goes wrong.
    """
    second = connect()
    try:
        for _ in range(ROUNDS):
            _begin(second)
            # While the second one holds a process, the first one has the same as before only if that is its own.
            if process_of(second) == process or process_of(first) != process:
                return "transaction"
            second.execute("ROLLBACK")
        return "session" if _is_heard(first, second) else "transaction"
    finally:
        with suppress(psycopg.Error):
            second.close()


def _is_heard(first: Connection[Any], second: Connection[Any]) -> bool:
    """True if the first connection hears what the second one says while nothing is under way on it."""
    said = secrets.token_hex(16)
    try:
        first.execute("LISTEN timeleap_pooler")
    except errors.ReadOnlySqlTransaction:
        return False  # a standby, where nobody listens
    second.execute("SELECT pg_notify('timeleap_pooler', %s)", [said])
    give_up = time.monotonic() + HEARD_SECONDS
    with selectors.DefaultSelector() as awaited:
        awaited.register(first.fileno(), selectors.EVENT_READ)
        while (left := give_up - time.monotonic()) > 0:
            awaited.select(left)
            first.pgconn.consume_input()
            while (notification := first.pgconn.notifies()) is not None:
                if notification.extra == said.encode():
                    return True
    first.execute("UNLISTEN timeleap_pooler")
    return False


def _begin(second: Connection[Any]) -> None:
    try:
        second.execute("BEGIN")
    except psycopg.Error as error:
        if "statement pooling" in str(error):
            message = "the pooler is in statement mode, which has no transactions: set its pool_mode to session"
            raise PoolerError(message) from error
        if second.closed:
            raise PoolUsedUpError(
                f"the pooler had no second connection for {SECOND_SECONDS:.0f} s: its pool is used up (each process"
                " needs one to listen, and one for each session at work)"
            ) from error
        raise
