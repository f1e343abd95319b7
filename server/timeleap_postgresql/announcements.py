"""The thread of a process that hears of what other processes commit to a database."""

from __future__ import annotations

import json
import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import psycopg
from psycopg import Connection, errors, sql

from timeleap.errors import StorageFailureError
from timeleap_postgresql.database import CHANNEL, WAITING_LOCK, Database
from timeleap_postgresql.servers import WatchedConnection

LISTENING_SECONDS: Final = 2.0
"""Silence after which the server that tells of changes is asked if it is there."""
QUIET_SECONDS: Final = 10.0
"""Time after the last use of the database, or the last notification, from which on nothing is asked any more."""
OWN_SECONDS: Final = 20.0
"""Time after a change of this process from which on its own notification is taken for lost; a COMMIT is waited for less long."""
AGAIN_SECONDS: Final = 2.0
"""Longest pause before a lost connection is made again, or one that is refused for what may pass."""
REFUSED_SECONDS: Final = 30.0
"""Pause after a refusal that somebody has to cure, unless the database is used meanwhile."""
LISTENING_PAUSE: Final = 0.5
"""How long to wait for notifications before looking whether another server is the primary."""
_logger = logging.getLogger(__name__)


class Announcements:
    """Listens, in a thread of its own, for what other processes commit; after a lost connection everything may have
    changed, and that is said.

    The changes of this process are announced to it, too. Where it does not hear of one, it hears of nothing: between it and
    the server is a pooler that gave its connection to somebody else, or a firewall that forgot it. Then it connects again.
    """

    def __init__(self, database: Database, heard: Callable[[str | None, int | None], None]) -> None:
        """`heard`: called in that thread with a session and its version; (None, None) where all are to be looked at."""
        self._database = database
        self._heard = heard
        self._own = f'"by": "{database.sender}"}}'.encode()  # the end of what we announce ourselves
        self._closed = threading.Event()
        self.ready = threading.Event()  # set once nothing is missed any more
        self._end, self._ended = socket.socketpair()
        """The thread waits for the second one, too, which can be read once the first is closed."""
        self._thread = threading.Thread(target=self._run, name="timeleap notifications", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._closed.set()
        self._end.close()
        self._thread.join(2)

    def _run(self) -> None:
        with self._ended:
            self._listen()

    def _listen(self) -> None:
        pause, said = 0.1, ""
        while not self._closed.is_set():
            try:
                with self._database.connect_to_listen() as connection, selectors.DefaultSelector() as awaited:
                    awaited.register(self._ended, selectors.EVENT_READ)
                    awaited.register(connection.fileno(), selectors.EVENT_READ)
                    connection.add_notify_handler(lambda notify: self._tell(notify.payload))
                    connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(CHANNEL)))
                    # Shared, as the connection before this one may have it still.
                    sender = int.from_bytes(bytes.fromhex(self._database.sender), "big", signed=True)
                    connection.execute("SELECT pg_advisory_lock_shared(%s, %s)", [WAITING_LOCK, sender])
                    self._database.untold.clear()
                    self.ready.set()
                    self._heard(None, None)
                    pause, said = 0.1, ""
                    self._hear(connection, awaited)
            except psycopg.Error as error:
                _logger.debug("no notifications for now: %s", type(error).__name__)
                self._database.doubt()
            except StorageFailureError as error:
                if error.data.get("reason") in ("unreachable", "lost"):
                    self._database.doubt()
                else:  # requests may be answered all the same, over the connections that there are
                    self._heard(None, None)
                if error.message != said:
                    said = error.message
                    _logger.warning("nothing is heard of what other processes change, it is looked for: %s", said)
                if not error.retryable:
                    pause = REFUSED_SECONDS
            else:
                continue
            self._wait(pause)
            pause = min(AGAIN_SECONDS, 2 * pause)

    def _wait(self, seconds: float) -> None:
        """Wait for so long; less where this is closed, or the database is used meanwhile."""
        began = time.monotonic()
        while time.monotonic() - began < seconds and self._database.used < began:
            if self._closed.wait(min(seconds, AGAIN_SECONDS)):
                return

    def _hear(self, connection: WatchedConnection, awaited: selectors.BaseSelector) -> None:
        """Tell of what arrives, until this is closed or another server is the primary. Raises psycopg.Error: nothing
        arrives any more."""
        heard = asked = time.monotonic()
        while not self._closed.is_set() and not self._database.listening.is_outdated(connection):
            if self._tell_all(connection):
                heard = asked = time.monotonic()
            if self._database.untold.since(OWN_SECONDS):
                raise errors.OperationalError("a change of this process was not heard of")
            if awaited.select(LISTENING_PAUSE):
                connection.pgconn.consume_input()
                continue
            # A server that hangs is silent, too: TCP does not see that. A database that nobody uses may sleep.
            now = time.monotonic()
            in_use = now - max(heard, self._database.used) < QUIET_SECONDS
            if self._database.several and in_use and now - asked > LISTENING_SECONDS:
                connection.execute("SELECT 1")
                asked = time.monotonic()

    def _tell_all(self, connection: Connection[Any]) -> bool:
        """Tell of what has arrived, past psycopg's slow way to that; says whether there was anything."""
        first = arrived = connection.pgconn.notifies()
        while arrived is not None:
            if arrived.extra.endswith(self._own):
                self._database.untold.clear()
            else:
                self._tell(arrived.extra.decode())
            arrived = connection.pgconn.notifies()
        return first is not None

    def _tell(self, payload: str) -> None:
        try:
            match json.loads(payload):
                case {"by": self._database.sender}:
                    self._database.untold.clear()
                case {"session": str(session_id), "version": int(version)}:
                    self._heard(session_id, version)
                case _:
                    pass
        except ValueError:
            return  # not one of ours
