"""Lines of a log that were acknowledged and are not there any more, as far as the files beside it can tell.

The index says what was acknowledged, and which file that was in; it is derived and never synced. So a log that lost its
end, or is gone, is told where its index is still there; an index that is gone, or older than the log, proves nothing.
Nothing is written here: the old index stays, and tells the same at every opening, until somebody has accepted the log
as it is.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

from timeleap.storage import durable
from timeleap.storage.engine import Damage, RecordFlag, RecordKind
from timeleap.storage.index import (
    EntryStore,
    IndexDamagedError,
    OldIndex,
    first_difference,
    old_index,
)
from timeleap.storage.reader import StoredLog, timeline_names

_PLACEHOLDERS: Final = (".{}.icloud", "{}.icloud", "{}.nextcloud", "{}.owncloud", "{}.cloud", "{}.dropbox")
"""Names that sync programs give to what stands for a file whose content is elsewhere."""


def placeholder(log: Path) -> str | None:
    """The file beside a log by which a sync program stands for it."""
    names = durable.list_directory(log.parent)
    return next((name for name in (form.format(log.name) for form in _PLACEHOLDERS) if name in names), None)


def of_missing_log(log: Path, *, expected: bool) -> tuple[Damage | None, bool]:
    """The loss of a log that is not there, None where none ever was, and whether somebody has to decide what to do.
    `expected`: other files say that there was one. Timelines alone may be left by who began anew."""
    old = old_index(log)
    lines, messages, size = 0, 0, 0
    if old is not None:
        with suppress(IndexDamagedError):
            state = old.store.state(old.store.count)
            lines, messages, size = state.lines, state.messages, state.length
    stands = placeholder(log)
    kept = bool(timeline_names(log))
    ours = lines > 0 or stands is not None or (expected and old is None)
    if not ours and not kept:
        return None, False  # it had nothing in it
    told = f" with {count_of(messages)} ({size:,} bytes)" if lines else ""
    text = f"{log.name}{told} is missing"
    if stands is not None:
        text += f": a sync program has put {stands} in its place, so let it bring the file back"
    elif kept:
        text += " though timelines of it exist; restore one of them"
    return Damage("logMissing", text, 0, 0, size), ours or expected


def behind(log: StoredLog, old: OldIndex) -> Damage | None:
    """The loss of a log that another file took the place of, by the index of the one before: acknowledged lines of that
    are neither in it nor in a timeline."""
    store = old.store
    try:
        then = store.state(store.count)
        common = _common_lines(log, store)
        if common == 0 and log.state.lines:
            return None  # it is the index of another log
        diverged = common < log.state.lines
        if diverged and log.state.messages >= then.messages:
            missing = _missing_messages(log, store, common)
        else:
            missing = then.messages - log.state.messages
        if common == then.lines or (diverged and missing <= 0) or _kept_in_timeline(log.path, old):
            return None
        start = store.state(common).length
    except (OSError, IndexDamagedError):
        return None
    found = not_in(log.path, common, start, then.length - start, missing)
    return found if found.kind == "linesLost" else None


def not_in(path: Path, line: int, offset: int, size: int, messages: int) -> Damage:
    """The loss of a log that is there, from a line on: messages (`linesLost`), or none, if it merely differs."""
    if messages <= 0:
        text = f"from line {line} on lines are missing or others are in their place; the log is taken as it is"
        return Damage("notAsWritten", text, line, offset, size)
    gone = f"{count_of(messages)} that {'was' if messages == 1 else 'were'} saved"
    return Damage("linesLost", f"{path.name} lacks {gone} ({size:,} bytes from byte {offset:,} on)", line, offset, size)


def is_one_batch(store: EntryStore, line: int) -> bool:
    """True if the lines of an index from one on were written as one batch, or are a single line."""
    last = store.count - 1
    return line <= last and all(store.entry(each).flags & RecordFlag.BATCH_OPEN for each in range(line, last))


def count_of(number: int) -> str:
    return f"{number:,} message{'' if number == 1 else 's'}"


def _common_lines(log: StoredLog, store: EntryStore) -> int:
    """The number of lines that the log and the old index both begin with; the chain of an entry covers all before."""
    low, high = 0, min(log.state.lines, store.count)
    while low < high:
        middle = (low + high + 1) // 2
        one, two = log.store.state(middle), store.state(middle)
        if (one.chain, one.length) == (two.chain, two.length):
            low = middle
        else:
            high = middle - 1
    return low


def _missing_messages(log: StoredLog, store: EntryStore, common: int) -> int:
    """The number of messages in the old index from a line on, where the log has none of these lines; else 0: lines
    that moved, or one that was edited, are no loss."""
    if log.state.lines == store.count:
        return 0
    there = {(entry.crc, entry.length) for entry in log.entries(common, log.state.lines)}
    gone = [store.entry(line) for line in range(common, store.count)]
    if any((entry.crc, entry.length) in there for entry in gone):
        return 0
    return sum(entry.kind == RecordKind.MESSAGE for entry in gone)


def _kept_in_timeline(path: Path, old: OldIndex) -> bool:
    """True if a timeline has all that the old index knows: a rewrite set the log aside."""
    length = old.store.state(old.store.count).length
    for name in timeline_names(path):
        there = durable.status(name.path)
        if there is None or there.size < length or not durable.is_regular(name.path):
            continue
        if there.identity.inode == old.inode:
            return True
        if first_difference(durable.OpenFile(name.path), old.store, 0, old.store.count) is None:
            return True
    return False
