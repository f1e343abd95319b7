"""Opening a log: what is found on disk, mended or not. Blocking; run in the log's own thread."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from timeleap.storage import appending, load, recovery, timelines
from timeleap.storage.engine import Progress, Quarantined, Recovery
from timeleap.storage.load import Loaded
from timeleap.storage.reader import StoredLog


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
    return None if loaded is None else _described(loaded)


def recovered(path: Path, create: bool, progress: Progress | None, trust_index: bool = True) -> LoadedLog:
    """Mend and load a log we have the lock of."""
    recovery.tidy(path)
    loaded = load.load(path, writable=True, progress=progress, trust_index=trust_index)
    cut = recovery.cut(loaded)
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
        warnings=(*((loaded.lost,) if loaded.lost else ()), *recovery.warnings(log)),
    )
    identity = log.file.identity if log.file else None
    return LoadedLog(loaded, mended, timelines.highest_number(log.path, besides=identity))
