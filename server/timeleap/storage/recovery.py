"""Opening a log: what is found on disk, mended or not. Blocking; run in the log's own thread."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from timeleap import clock
from timeleap.failpoints import failpoint
from timeleap.storage import appending, durable, load, timelines
from timeleap.storage.durable import OpenFile
from timeleap.storage.engine import Damage, Progress, Quarantined, Recovery
from timeleap.storage.index import index_path
from timeleap.storage.load import Loaded
from timeleap.storage.reader import StoredLog
from timeleap.storage.rewrite import intent_pending, settle_intent

# Repairs at opening a log for writing: leftovers of an interrupted step, a torn tail, an incomplete batch
#
# Nothing is thrown away: what is cut from the log is first made durable in a quarantine file beside it.


def tidy(log: Path) -> None:
    """Finish or undo a replacement that was cut short, and remove the temporaries of ours."""
    changed = settle_intent(log)
    for path in timelines.same_as_live(log):
        failpoint("recovery.unlink")
        durable.remove_file(path)
        durable.remove_file(index_path(path))
        changed = True
    for path in (*temporaries(log), *orphaned_indexes(log)):
        durable.remove_file(path)
    if changed:
        durable.sync_directory(log.parent)


def temporaries(log: Path) -> list[Path]:
    """Temporary files of ours that a killed process left."""
    pattern = re.compile(
        rf"\.{re.escape(log.stem)}(_[0-9]+)?{re.escape(log.suffix)}(\.idx|\.intent)?\.[0-9a-f]{{16}}\.tmp"
    )
    return [
        log.parent / name
        for name in durable.list_directory(log.parent)
        if pattern.fullmatch(name) and durable.is_regular(log.parent / name)
    ]


def orphaned_indexes(log: Path) -> list[Path]:
    """Indexes of timelines that are gone. The live log's own index stays: it tells that lines are missing."""
    pattern = re.compile(
        rf"\.({re.escape(log.stem)}_[0-9]{{1,18}}{re.escape(log.suffix)}|{re.escape(log.name)}\.[0-9]{{1,18}})\.idx"
    )
    present = set(durable.list_directory(log.parent))
    return [
        log.parent / name
        for name in present
        if (match := pattern.fullmatch(name)) and match[1] not in present and durable.is_regular(log.parent / name)
    ]


def cut_tail(loaded: Loaded) -> Quarantined | None:
    """Cut what does not count from the end of the log, after keeping it in a quarantine file."""
    log = loaded.log
    if not loaded.cut or log.file is None:
        return None
    offset = log.state.length
    reason: Literal["tornTail", "incompleteBatch"] = "tornTail" if loaded.cut == loaded.torn else "incompleteBatch"
    kept = _quarantine(log.path, log.file, offset, loaded.cut)
    failpoint("recovery.before_cut")
    log.file.truncate(offset)  # not synced: if it is lost, the same is cut again; the next record's sync covers it
    failpoint("recovery.after_cut")
    return Quarantined(kept, offset, loaded.cut, reason)


def warnings_of(log: StoredLog) -> tuple[Damage, ...]:
    """Warnings about the log: damaged lines, or that it is missing though timelines exist."""
    if log.file is None and timelines.names(log.path):
        text = "the live log is missing though timelines of it exist; restore one of them"
        return (Damage("logMissing", text, 0, 0, 0),)
    return tuple(log.damage())


def _quarantine(log: Path, file: OpenFile, offset: int, size: int) -> str:
    """Keep bytes of the log in a file of their own; the same bytes are kept once, however often we are killed here."""
    data = file.pread(offset, size)
    stem = f"{log.name}.quarantine-{offset}-"
    for name in durable.list_directory(log.parent):
        if name.startswith(stem) and _holds(log.parent / name, data):
            return name
    stamp = clock.now_iso().replace("-", "").replace(":", "").replace(".", "")
    name = stem + stamp
    attempt = 1
    while durable.status(log.parent / name) is not None:
        attempt += 1
        name = f"{stem}{stamp}-{attempt}"
    kept = durable.create_exclusive(log.parent / name)
    try:
        kept.pwrite(data, 0)
        kept.sync()
    except BaseException:
        kept.close()
        with suppress(OSError):
            durable.remove_file(kept.path)
        raise
    durable.sync_directory(log.parent)
    return name


def _holds(path: Path, data: bytes) -> bool:
    there = durable.status(path)
    if there is None or there.size != len(data) or not durable.is_regular(path):
        return False
    try:
        kept = OpenFile(path, writable=True)  # or Windows does not sync it
        if kept.pread(0, len(data)) != data:
            return False
        kept.sync()
    except OSError:
        return False
    return True


# Opening


@dataclass(frozen=True, slots=True)
class LoadedLog:
    """A log as it was found on disk.

    Attributes:
        loaded: The log.
        recovery: What there is to say about it.
        highest: The highest number of a timeline.
    """

    loaded: Loaded
    recovery: Recovery
    highest: int


def looked_at(path: Path, progress: Progress | None) -> LoadedLog:
    """Load a log and change nothing."""
    return _described(load.load(path, writable=False, progress=progress))


def caught_up(log: StoredLog, seen: int) -> LoadedLog | None:
    """The same for a log that was loaded before; None if it has not changed."""
    loaded = load.catch_up(log, seen)
    if loaded is None or (loaded.log.file is None and intent_pending(log.path)):
        return None
    return _described(loaded)


def recovered(path: Path, create: bool, progress: Progress | None, trust_index: bool = True) -> LoadedLog:
    """Mend and load a log we have the lock of."""
    tidy(path)
    loaded = load.load(path, writable=True, progress=progress, trust_index=trust_index)
    cut = cut_tail(loaded)
    found = _described(replace(loaded, cut=0, torn=0), cut)
    if create and loaded.log.file is None and not found.recovery.warnings:
        return replace(found, loaded=Loaded(appending.new_log(path)))
    return found


def _described(loaded: Loaded, cut: Quarantined | None = None) -> LoadedLog:
    log = loaded.log
    mended = Recovery(
        quarantined=(cut,) if cut else (),
        cut_bytes=cut.bytes if cut else 0,
        index_rebuilt=loaded.rebuilt and log.state.lines > 0,
        warnings=(*((loaded.lost,) if loaded.lost else ()), *warnings_of(log)),
    )
    identity = log.file.identity if log.file else None
    return LoadedLog(loaded, mended, timelines.highest_number(log.path, besides=identity))
