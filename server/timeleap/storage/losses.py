"""Lines of a log that were acknowledged and are not there any more, as far as the files beside it can tell.

The index says what was acknowledged, and which file that was in; it is derived and never synced. So a log that lost its
end, or is gone, is told where its index is still there; an index that is gone, or older than the log, proves nothing.
Nothing is written here: the old index stays, and tells the same at every opening, until somebody has accepted the log
as it is.
"""

from __future__ import annotations

from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from timeleap.placeholders import placeholders
from timeleap.storage import durable
from timeleap.storage.damage import Damage
from timeleap.storage.durable import crc32
from timeleap.storage.index import EntryStore, IndexDamagedError, OldIndex, first_difference, old_index
from timeleap.storage.log_values import Entry, RecordKind
from timeleap.storage.reader import StoredLog, timeline_names


def of_missing_log(log: Path, *, expected: bool, old: OldIndex | None = None) -> tuple[Damage | None, bool]:
    """The loss of a log that is not there, None where none ever was, and whether somebody has to decide what to do.
    `expected`: other files say that there was one. Timelines alone may be left by who began anew. `old`: its index,
    where that is not the one beside it."""
    old = old or old_index(log)
    lines, messages, size = 0, 0, 0
    if old is not None:
        with suppress(IndexDamagedError):
            state = old.store.state(old.store.count)
            lines, messages, size = state.lines, state.messages, state.length
    stands = placeholders(durable.list_directory(log.parent)).get(log.name)
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
    are neither in it nor in a timeline. `otherLog`: it has nothing of what that index knows."""
    store = old.store
    try:
        then = store.state(store.count)
        common = common_lines(log, old)
        if common == then.lines or _kept_in_timeline(log.path, old):
            return None
        missing = _missing_messages(log, store, common)
        start = store.state(common).length
    except (OSError, IndexDamagedError):
        return None
    if missing is None:
        text = f"{log.path.name} has none of the {count_of(then.messages)} that were saved here: it is another log"
        return Damage("otherLog", text, 0, 0, then.length)
    if missing <= 0:
        return None
    return not_in(log.path, common, start, then.length - start, missing)


def needs_decision(lost: Damage | None, log: Path) -> bool:
    """True if nothing may be written to a log before somebody has accepted its loss."""
    if lost is None or lost.kind != "otherLog":
        return lost is not None and lost.kind == "linesLost"
    # The index may be that of a log beside this one, or in a folder beside its own, and have been put here. Times do not
    # tell: a copy or a backup gives all files new ones, in any order.
    old = old_index(log)
    for other in (*log.parent.glob("*.jsonl"), *log.parent.parent.glob(f"*/{log.name}")):
        with suppress(OSError):
            there = durable.status(other)
            if old is not None and there is not None and there.identity.inode == old.inode:
                with closing(durable.OpenFile(other)) as file:
                    return first_difference(file, old.store, 0, old.store.count) is not None
    return True


class LogBefore(NamedTuple):
    """A log before it is taken over as it is: whether it is `gone`, and the indexes that know it."""

    gone: bool
    indexes: list[OldIndex]


def before_reload(log: StoredLog, *, told: bool) -> LogBefore:
    """A log that is in use, as its lines that are shown have it, and the index file, unless what that says is `told`
    already. Blocking. Raises OSError."""
    found = [] if log.file is None else [OldIndex(log.store.aside(), log.file.identity.inode, synced=True)]
    stored = None if told else old_index(log.path)
    if stored is not None:
        found.append(stored)
    if not durable.HOLD_OPEN:
        found = [old._replace(store=old.store.in_memory()) for old in found]
    return LogBefore(durable.status(log.path) is None, found)


def of_reloaded(log: StoredLog, before: LogBefore) -> Damage | None:
    """The loss of a log that was taken over as it is."""
    if before.gone and log.state.lines == 0:
        longest = max(before.indexes, key=lambda old: old.store.count, default=None)
        if longest is None or longest.store.count == 0:
            return None
        return of_missing_log(log.path, expected=False, old=longest)[0]
    found = (behind(log, old) for old in before.indexes)
    return next((lost for lost in found if lost is not None), None)


def common_lines(log: StoredLog, old: OldIndex) -> int:
    """The number of lines that the log and the old index both begin with; the chain of an entry covers all before. 0
    where the index is damaged."""
    store = old.store
    low, high = 0, min(log.state.lines, store.count)
    with suppress(IndexDamagedError):
        while low < high:
            middle = (low + high + 1) // 2
            one, two = log.store.state(middle), store.state(middle)
            if (one.chain, one.length) == (two.chain, two.length):
                low = middle
            else:
                high = middle - 1
        return low
    return 0


def not_in(path: Path, line: int, offset: int, size: int, messages: int) -> Damage:
    """The loss of a log that is there, from a line on: messages (`linesLost`), or none, if it merely differs."""
    if messages <= 0:
        text = f"from line {line} on lines are missing or others are in their place; the log is taken as it is"
        return Damage("notAsWritten", text, line, offset, size)
    gone = f"{count_of(messages)} that {'was' if messages == 1 else 'were'} saved"
    return Damage("linesLost", f"{path.name} lacks {gone} ({size:,} bytes from byte {offset:,} on)", line, offset, size)


def count_of(number: int) -> str:
    return f"{number:,} message{'' if number == 1 else 's'}"


def _missing_messages(log: StoredLog, store: EntryStore, common: int) -> int | None:
    """The number of messages that the old index has from a line on, and the log lacks; None if the two have no line in
    common. Lines that moved, or one that was edited, are no loss."""
    then, here = store.state(store.count), log.state
    if common == here.lines or here.messages == 0:
        return then.messages - here.messages
    gone = [store.entry(line) for line in range(common, store.count)]
    rest = log.entries(common, here.lines)
    there = {(entry.crc, entry.length) for entry in rest} | _as_saved(log, rest)
    moved = any((entry.crc, entry.length) in there for entry in gone)
    damaged = 2 * max(0, _damaged(rest) - _damaged(gone))  # two lines may have become one
    if common == 0 and not moved and damaged < then.messages:
        return 0 if _says_the_same(gone, rest) else None
    if here.messages < then.messages:
        return then.messages - here.messages - damaged
    if moved or here.lines == store.count:
        return 0
    return sum(entry.kind == RecordKind.MESSAGE for entry in gone) - damaged


def _says_the_same(before: list[Entry], after: list[Entry]) -> bool:
    """True if lines are those of before in another spelling of JSON, as far as kinds, roles and characters of text tell.
    Lines of another log that happen to agree in these would have the lengths of the old ones, too."""
    return len(before) <= len(after) and all(
        (one.kind, one.role, one.value) == (two.kind, two.role, two.value) and one.length != two.length
        for one, two in zip(before, after, strict=False)
    )


def _damaged(entries: list[Entry]) -> int:
    return sum(entry.kind == RecordKind.DAMAGED for entry in entries)


def _as_saved(log: StoredLog, entries: list[Entry]) -> set[tuple[int, int]]:
    """Checksums and lengths of lines without what an editor adds: a byte order mark, carriage returns."""
    assert log.file is not None
    found = set()
    for entry in entries:
        line = log.file.pread(entry.offset, entry.length)
        plain = line.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")
        found.add((crc32(plain), len(plain)))
    return found


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
