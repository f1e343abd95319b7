"""Opening a log: what is found on disk, mended or not. Blocking; run in the log's own thread."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from timeleap import clock
from timeleap.failpoints import failpoint
from timeleap.storage import appending, durable, load, timelines
from timeleap.storage.durable import OpenFile
from timeleap.storage.engine import Damage, Progress, Quarantined, Recovery
from timeleap.storage.index import index_path
from timeleap.storage.load import Loaded
from timeleap.storage.reader import StoredLog

# Replacing a log where the file system has no hard links: an intent record, then two renames
#
# Between the renames the live log has no name. The record says what was meant, so that the next process that opens the
# log for writing can finish it, or undo it where the new log is gone.


def intent_path(log: Path) -> Path:
    return log.parent / f".{log.name}.intent"


def declare_intent(log: Path, timeline: Path, temporary: Path) -> None:
    """Write down, durably, that `log` is to become `timeline` and `temporary` is to become `log`."""
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


# Repairs at opening a log for writing: leftovers of an interrupted step, a torn tail, an incomplete batch
#
# Nothing is thrown away: what is cut from the log is first made durable in a quarantine file beside it.


def tidy(log: Path) -> None:
    """Finish or undo a replacement that was cut short, and remove what a killed process left."""
    changed = settle_intent(log)
    for path in timelines.same_as_live(log):
        failpoint("recovery.unlink")
        durable.remove_file(path)
        durable.remove_file(index_path(path))
        changed = True
    for path in leftovers(log):
        durable.remove_file(path)
    if changed:
        durable.sync_directory(log.parent)


def leftovers(log: Path) -> list[Path]:
    """Temporary files of ours, and indexes of timelines that are gone. The live log's own index stays: it tells that lines
    are missing."""
    stem, suffix, whole = re.escape(log.stem), re.escape(log.suffix), re.escape(log.name)
    temporary = re.compile(rf"\.{stem}(_[0-9]+)?{suffix}(\.idx|\.intent)?\.[0-9a-f]{{16}}\.tmp")
    index = re.compile(rf"\.({stem}_[0-9]{{1,18}}{suffix}|{whole}\.[0-9]{{1,18}})\.idx")
    names = set(durable.list_directory(log.parent))
    going = [name for name in names if temporary.fullmatch(name)]
    going += [name for name in names if (match := index.fullmatch(name)) and match[1] not in names]
    return [log.parent / name for name in going if durable.is_regular(log.parent / name)]


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


def looked_at(path: Path, progress: Progress | None) -> Loaded:
    return _described(load.load(path, writable=False, progress=progress))


def caught_up(log: StoredLog, seen: int) -> Loaded | None:
    """The same for a log that was loaded before; None if it has not changed."""
    loaded = load.catch_up(log, seen)
    if loaded is None or (loaded.log.file is None and intent_pending(log.path)):
        return None
    return _described(loaded)


def recovered(path: Path, create: bool, progress: Progress | None, trust_index: bool = True) -> Loaded:
    """Mend and load a log we have the lock of."""
    tidy(path)
    loaded = load.load(path, writable=True, progress=progress, trust_index=trust_index)
    cut = cut_tail(loaded)
    found = _described(replace(loaded, cut=0, torn=0), cut)
    if create and found.log.file is None and not found.recovery.warnings:
        return replace(found, log=appending.new_log(path))
    return found


def _described(loaded: Loaded, cut: Quarantined | None = None) -> Loaded:
    log = loaded.log
    warnings = [loaded.lost] if loaded.lost else []
    if log.file is None and timelines.names(log.path):
        text = "the live log is missing though timelines of it exist; restore one of them"
        warnings.append(Damage("logMissing", text, 0, 0, 0))
    else:
        warnings += log.damage()
    recovery = Recovery(
        quarantined=(cut,) if cut else (),
        cut_bytes=cut.bytes if cut else 0,
        index_rebuilt=loaded.rebuilt and log.state.lines > 0,
        warnings=tuple(warnings),
    )
    identity = log.file.identity if log.file else None
    return replace(loaded, recovery=recovery, highest=timelines.highest_number(log.path, besides=identity))
