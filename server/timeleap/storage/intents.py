"""Intents of rewrites: a note beside the log of an exchange under way, and the files that a crash left of one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from timeleap.storage import durable
from timeleap.storage.durable import OpenFile, failpoint
from timeleap.storage.index import index_path
from timeleap.storage.reader import same_as_live


def intent_path(log: Path) -> Path:
    return log.parent / f".{log.name}.intent"


def declare_intent(log: Path, timeline: Path, temporary: Path) -> None:
    """Write down, durably, that `log` is to become `timeline` and `temporary` is to become `log`."""
    # Without hard links two renames replace a log, and between them it has no name. The next process that opens it for
    # writing finishes what the note says, or undoes it where the new log is gone.
    record = {"timeline": timeline.name, "new": temporary.name}
    durable.atomic_write(intent_path(log), json.dumps(record).encode())


def withdraw_intent(log: Path) -> None:
    durable.remove_file(intent_path(log))
    durable.sync_directory(log.parent)


def settle_intent(log: Path) -> bool:
    """Finish or undo a replacement that was cut short; says whether there was one."""
    path = intent_path(log)
    if not durable.is_regular(path):
        return False
    try:
        record: Any = json.loads(OpenFile(path).pread(0, 4096))
    except (OSError, ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        record = {}
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
    withdraw_intent(log)
    return True


def intent_pending(log: Path) -> bool:
    """True if a replacement is between its two renames."""
    return durable.status(log) is None and durable.is_regular(intent_path(log))


def _sibling(log: Path, name: object, form: str) -> Path | None:
    """The file of that name in the log's directory, if the name is of that form."""
    if not isinstance(name, str) or re.fullmatch(form, name) is None:
        return None
    return log.parent / name


def tidy(log: Path) -> None:
    """Finish or undo a replacement that was cut short, and remove what a killed process left."""
    changed = settle_intent(log)
    for path in same_as_live(log):
        failpoint("recovery.unlink")
        durable.remove_file(path)
        durable.remove_file(index_path(path))
        changed = True
    for path in leftovers(log):
        durable.remove_file(path)
    if changed:
        durable.sync_directory(log.parent)


def leftovers(log: Path) -> list[Path]:
    """Temporary files of ours, and indexes of timelines that are gone. The live log's own index stays: it tells that
    lines are missing."""
    names = set(durable.list_directory(log.parent))
    if not durable.any_left_over(names):
        return []  # as nearly always: the patterns would take longer than the rest
    stem, suffix, whole = re.escape(log.stem), re.escape(log.suffix), re.escape(log.name)
    temporary = re.compile(rf"\.{stem}(_[0-9]+)?{suffix}(\.idx|\.intent)?\.[0-9a-f]{{16}}\.tmp")
    index = re.compile(rf"\.({stem}_[0-9]{{1,18}}{suffix}|{whole}\.[0-9]{{1,18}})\.idx")
    going = [name for name in names if temporary.fullmatch(name)]
    going += [name for name in names if (match := index.fullmatch(name)) and match[1] not in names]
    return [log.parent / name for name in going if durable.is_regular(log.parent / name)]
