"""The errors of a log, or of the names of logs, that a program that takes no lock has changed."""

from __future__ import annotations

from pathlib import Path

from timeleap.errors import ExternallyModifiedError, StorageFailureError
from timeleap.storage import durable
from timeleap.storage.reader import StoredLog


def changed_log(log: StoredLog) -> ExternallyModifiedError:
    """The error of a log that a program that takes no lock has changed, it or the lock's file. Raises StorageFailureError."""
    try:
        words = _change_in_words(log)
    except OSError as error:
        raise StorageFailureError.of(error, "look at the log", log.path) from error
    return ExternallyModifiedError(f"{words}; reload the session to take over its state")


def _change_in_words(log: StoredLog) -> str:
    """The change of a log by a program that takes no lock, as far as a look at its file can tell. Raises OSError."""
    name, there = log.path.name, durable.status(log.path)
    if there is None:
        return f"{name} is gone: another program has removed or moved it"
    if log.file is not None and there.identity != log.file.identity:
        return f"another program has put another file in the place of {name}"
    if there.size < log.state.length:
        return f"another program has cut {log.state.length - there.size:,} bytes off the end of {name}"
    if there.size == log.state.length:
        return f"the lock file of {name} was replaced or removed, so another process may own the session by now"
    return f"{name} was changed by a program that takes no lock"


def undecided(lost: str) -> ExternallyModifiedError:
    """The error of a log whose loss nobody has accepted."""
    return ExternallyModifiedError(f"{lost}; nothing is written until session/reload accepts the log as it is")


def changed_names(path: Path) -> ExternallyModifiedError:
    """The error of names beside a log that another program is giving or taking."""
    return ExternallyModifiedError(f"another program is changing the logs of {path.name}; reload the session")
