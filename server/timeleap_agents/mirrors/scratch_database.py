"""Notes that are looked up by name and changed in place, in a database without a name: what is not in use of it is in a
temporary file."""

from __future__ import annotations

import sqlite3
import weakref
from typing import Any, Final

from timeleap.errors import StorageFailureError

_SETTINGS: Final = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -2000;
"""


class ScratchDatabase:
    """A database that goes when this does. One thread at a time may use it.

    Args:
        tables: SQL that makes the tables.
    """

    def __init__(self, tables: str) -> None:
        connection = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._connection = connection
        weakref.finalize(self, connection.close)
        connection.executescript(_SETTINGS + tables)
        connection.execute("BEGIN")  # which never ends: nobody else reads it

    def do(self, statement: str, *values: Any) -> sqlite3.Cursor:
        """Carry out a statement.

        Raises:
            StorageFailureError: There is no room for its file.
        """
        try:
            return self._connection.execute(statement, values)
        except sqlite3.Error as error:
            message = (
                f"what was read cannot be noted in a temporary file ({error}): make room in the folder for temporary files, "
                "or name another one in TMPDIR"
            )
            raise StorageFailureError(message, path="", errno="ENOSPC") from error

    def one(self, statement: str, *values: Any) -> Any:
        """The first value of the first row; None where there is none."""
        row = self.do(statement, *values).fetchone()
        return None if row is None else row[0]
