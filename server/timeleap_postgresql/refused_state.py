"""The SQLSTATE by which a server refuses a connection.

libpq gives it for statements, and not for a connection that was not made: of that it has the server's words only, which
are in the server's language. But it writes the state in the place of the words, where it is told to before it connects.
"""

from __future__ import annotations

import ctypes
import functools
import re
import selectors
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import psycopg
from psycopg.pq import ConnStatus, PGconn, PollingStatus, abc

ASKED_SECONDS: Final = 5.0
"""How long to wait for the answer; the server has just given it."""
_STATE_ONLY: Final = 3  # PQERRORS_SQLSTATE, since PostgreSQL 12
_STATE: Final = re.compile(r":  ([0-9A-Z]{5})\s*$", re.MULTILINE)


def refused_state(conninfo: str) -> str | None:
    """Connect once more, and return the SQLSTATE by which that is refused; None where it is not, or nobody can say."""
    set_verbosity = _set_verbosity()
    if set_verbosity is None:
        return None
    connection = PGconn.connect_start(conninfo.encode())
    try:
        set_verbosity(getattr(connection, "pgconn_ptr"), _STATE_ONLY)  # noqa: B009  # the protocol of psycopg lacks it
        with suppress(psycopg.Error, OSError, ValueError):
            _connect(connection)
        found = _STATE.findall(connection.error_message.decode("utf-8", "replace"))
        return found[-1] if found else None
    finally:
        connection.finish()


def _connect(connection: abc.PGconn) -> None:
    give_up = time.monotonic() + ASKED_SECONDS
    while connection.status != ConnStatus.BAD and time.monotonic() < give_up:
        state = connection.connect_poll()
        if state not in (PollingStatus.READING, PollingStatus.WRITING):
            return
        event = selectors.EVENT_READ if state == PollingStatus.READING else selectors.EVENT_WRITE
        with selectors.DefaultSelector() as awaited:  # of this moment: libpq tries one address after the other
            awaited.register(connection.socket, event)
            awaited.select(give_up - time.monotonic())


@functools.cache
def _set_verbosity() -> Callable[..., Any] | None:
    """PQsetErrorVerbosity of the libpq that psycopg has loaded, which does not hand it on; None where it is not found."""
    file = getattr(sys.modules[PGconn.__module__], "__file__", None)
    try:
        function = ctypes.CDLL(
            file
        ).PQsetErrorVerbosity  # a library's own symbols, and those of what it was linked with
    except (OSError, AttributeError):
        return None
    function.argtypes = [ctypes.c_void_p, ctypes.c_int]
    return function
