"""Replacing a log where the file system has no hard links: an intent record, then two renames.

Between the renames the live log has no name. The record says what was meant, so that the next process that opens the log for writing
next can finish it, or undo it where the new log is gone.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from timeleap.storage import durable


def intent_path(log: Path) -> Path:
    """Where the intent of a replacement is written down."""
    return log.parent / f".{log.name}.intent"


def declare(log: Path, timeline: Path, temporary: Path) -> None:
    """Write down, durably, that `log` is to become `timeline` and `temporary` is to become `log`."""
    record = {"timeline": timeline.name, "new": temporary.name}
    durable.atomic_write(intent_path(log), json.dumps(record).encode())


def withdraw(log: Path) -> None:
    """The replacement is done, or given up."""
    durable.remove_file(intent_path(log))
    durable.sync_directory(log.parent)


def settle(log: Path) -> bool:
    """Finish or undo a replacement that was cut short.

    Returns:
        Whether there was anything to do.
    """
    path = intent_path(log)
    if not durable.is_regular(path):
        return False
    record = _read(path)
    # Whatever the record says, nothing is touched but a temporary file of ours and a name that a timeline may have.
    timeline = _sibling(log, record.get("timeline"), rf"{re.escape(log.stem)}_[0-9]{{1,18}}{re.escape(log.suffix)}")
    new = _sibling(log, record.get("new"), rf"\.{re.escape(log.name)}\.[0-9a-f]{{16}}\.tmp")
    if durable.status(log) is None:
        if new is not None and durable.is_regular(new):
            durable.replace_file(new, log)
        elif timeline is not None and durable.is_regular(timeline):
            durable.replace_file(timeline, log)
        durable.sync_directory(log.parent)
    elif new is not None:
        durable.remove_file(new)
    withdraw(log)
    return True


def pending(log: Path) -> bool:
    """True if a replacement is between its two renames."""
    return durable.status(log) is None and durable.is_regular(intent_path(log))


def _read(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(durable.OpenFile(path).pread(0, 4096))
    except (OSError, ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def _sibling(log: Path, name: object, form: str) -> Path | None:
    """The file of that name in the log's directory, if the name is of that form."""
    if not isinstance(name, str) or re.fullmatch(form, name) is None:
        return None
    return log.parent / name
