"""Timelines: earlier logs beside the live one, and how they are called."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from timeleap.errors import TimelineNotFoundError
from timeleap.storage import durable
from timeleap.storage.durable import Identity
from timeleap.storage.engine import (
    MAX_ROTATION,
    Damage,
    LogState,
    Notes,
    Timeline,
    TimelineFacts,
    highest_noted,
)
from timeleap.storage.index import index_path, save
from timeleap.storage.load import load, peek
from timeleap.storage.reader import StoredLog

MAX_GONE: Final = 100
"""Timelines that are gone by now and whose counts are still remembered."""
_AT_ONCE: Final = 1 << 20


class Name(NamedTuple):
    file: str
    number: int
    foreign: bool  # called `context.jsonl.3`, as the documents of the original have it, not `context_3.jsonl`

    @property
    def timeline_id(self) -> str:
        return self.file if self.foreign else Path(self.file).stem


def file_name(log: Path, number: int) -> str:
    return f"{log.stem}_{number}{log.suffix}"


def names(log: Path) -> list[Name]:
    """The names beside a log that are timeline names, whatever they stand for; newest first."""
    ours = re.compile(rf"{re.escape(log.stem)}_([0-9]{{1,18}}){re.escape(log.suffix)}")
    seeds = re.compile(rf"{re.escape(log.name)}\.([0-9]{{1,18}})")
    found = []
    for file in durable.list_directory(log.parent):
        if match := ours.fullmatch(file):
            found.append(Name(file, int(match[1]), foreign=False))
        elif match := seeds.fullmatch(file):
            found.append(Name(file, int(match[1]), foreign=True))
    return sorted(found, key=lambda name: (not name.foreign, name.number), reverse=True)


def highest_number(log: Path, *, besides: Identity | None = None) -> int:
    """The highest number in use by our names, 0 if none; the file `besides` (the live log) does not count, nor does a
    number so high that somebody else must have given it."""
    ours = [name for name in names(log) if not name.foreign and name.number <= MAX_ROTATION]
    return max((name.number for name in ours if not _is(log.parent / name.file, besides)), default=0)


def same_as_live(log: Path) -> list[Path]:
    """Timeline names that are the live log itself: a replacement came no further than to link it."""
    live = durable.status(log)
    if live is None or live.names < 2:
        return []
    return [log.parent / n.file for n in names(log) if not n.foreign and _is(log.parent / n.file, live.identity)]


def same_bytes(file: durable.OpenFile, other: durable.OpenFile) -> bool:
    size, offset = file.status().size, 0
    if size != other.status().size:
        return False
    while offset < size:
        data = file.pread(offset, _AT_ONCE)
        if not data or data != other.pread(offset, _AT_ONCE):
            return False
        offset += len(data)
    return True


class MemoryNotes:
    """Notes for logs that have nothing beside them; forgotten with the object."""

    def __init__(self) -> None:
        self.epoch = 0
        self.rotation = 0
        self._facts: dict[str, TimelineFacts] = {}

    @property
    def noted(self) -> int:
        return highest_noted(self._facts)

    def facts(self, timeline_id: str) -> TimelineFacts | None:
        return self._facts.get(timeline_id)

    def note(self, timeline_id: str, facts: TimelineFacts) -> None:
        self._facts[timeline_id] = facts

    def refresh(self) -> None:
        return

    def bump_epoch(self) -> None:
        self.epoch += 1

    def remember(self, *, rotation: int) -> None:
        self.rotation = max(self.rotation, rotation)


class Timelines:
    def __init__(self, log: Path, notes: Notes, *, keep_index: bool) -> None:
        self.notes = notes
        self._log = log
        self._keep_index = keep_index  # write the index of a timeline that had to be scanned beside it
        self._known: dict[tuple[str, Identity, int], tuple[int, int, int]] = {}

    def listed(self) -> list[Timeline]:
        """All timelines, newest first. Raises StorageFailureError."""
        found: list[Timeline] = []
        with durable.storage_errors("list the timelines", self._log.parent):
            for name, path in self._files():
                there = durable.status(path)
                if there is None or not durable.is_regular(path):
                    continue
                facts = self.notes.facts(name.timeline_id) or TimelineFacts()
                found.append(Timeline(name.timeline_id, name.file, facts, there.size, *self._counts(path, there)))
        if len(self._known) > len(found) + MAX_GONE:
            present = {timeline.file for timeline in found}
            self._known = {key: counts for key, counts in self._known.items() if key[0] in present}
        return found

    def before(self, live: StoredLog) -> list[Timeline]:
        """Those there were while `live` was the live log: not that log itself, nor what was set aside after it."""
        found = self.listed()
        if live.file is not None:
            for number, timeline in enumerate(found):
                if _is(self._log.parent / timeline.file, live.file.identity):
                    return found[number + 1 :]
        return found

    def path(self, timeline_id: str) -> Path:
        """The file of a timeline. Raises TimelineNotFoundError, StorageFailureError."""
        with durable.storage_errors("look for a timeline", self._log.parent):
            for name, path in self._files():
                if name.timeline_id == timeline_id:
                    return path
        raise TimelineNotFoundError(f"no timeline {timeline_id!r:.80}", timelineId=timeline_id)

    def reader(self, timeline_id: str) -> StoredLog:
        """A reader of one timeline; never writes. Its `damage` says what is missing at its end, too."""
        path = self.path(timeline_id)
        with durable.storage_errors(f"read the timeline {timeline_id}", path):
            loaded = load(path, writable=False)
        if loaded.cut and not loaded.lost:
            end = loaded.log.state
            loaded.log.lost = Damage("damagedRecord", "its end is cut off", end.lines, end.length, loaded.cut)
        else:
            loaded.log.lost = loaded.lost
        return loaded.log

    def _files(self) -> Iterator[tuple[Name, Path]]:
        """The names of timelines and their files; the live log itself, which a replacement may have linked, is none."""
        live = durable.status(self._log)
        for name in names(self._log):
            path = self._log.parent / name.file
            if not (live and _is(path, live.identity)):
                yield name, path

    def same(self, timeline_id: str, other_id: str) -> bool:
        known = {timeline.timeline_id: (timeline.bytes, timeline.chain) for timeline in self.listed()}
        if known.get(timeline_id, 0) != known.get(other_id, 1):
            return False
        file, other = self.reader(timeline_id).file, self.reader(other_id).file
        return file is not None and other is not None and same_bytes(file, other)

    def remove(self, timeline_id: str) -> None:
        """Delete a timeline and its index; its number is not used again."""
        path = self.path(timeline_id)
        with durable.storage_errors(f"remove the timeline {timeline_id}", path):
            self.notes.remember(rotation=highest_number(self._log))
            durable.remove_file(index_path(path))  # first: alone it would be left, with a checksum of each line
            durable.remove_file(path)
            durable.sync_directory(path.parent)

    def equal_to(self, log: StoredLog) -> str | None:
        """The newest timeline with the very bytes of a log, or None."""
        if log.file is None:
            return None
        for timeline in self.listed():
            if timeline.may_equal(log.state):
                try:
                    if same_bytes(durable.OpenFile(self._log.parent / timeline.file), log.file):
                        return timeline.timeline_id
                except OSError:
                    continue  # what cannot be read cannot stand for the log
        return None

    def _counts(self, path: Path, there: durable.FileStatus) -> tuple[int, int, int]:
        key = (path.name, there.identity, there.size)
        if key not in self._known:
            try:
                state = peek(path) or self._scanned(path)
            except OSError:
                return 0, 0, 0
            self._known[key] = (state.messages, state.checkpoints, state.chain)
        return self._known[key]

    def _scanned(self, path: Path) -> LogState:
        loaded = load(path, writable=False)
        file, state = loaded.log.file, loaded.log.state
        # An index that knows of more than there is stays: it is what tells that something is missing.
        if self._keep_index and file is not None and not loaded.cut and loaded.lost is None:
            try:
                save(loaded.log.store, path, file.identity.inode, parsed=loaded.parsed)
            except OSError:
                return state  # it is only a convenience
        return state


def _is(path: Path, identity: Identity | None) -> bool:
    """True if the path names that file. Never where the file system has no inode numbers: any two files would match."""
    there = durable.status(path)
    return there is not None and there.identity == identity and there.identity.inode != 0
