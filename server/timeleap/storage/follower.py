"""A log in a file as it is shown: what is on disk now, what others write to it, and what is wrong with it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar, TypeVarTuple

from timeleap.errors import StorageFailureError, TimeleapError
from timeleap.storage import durable, load, opening, scan
from timeleap.storage.durable import OpenFile
from timeleap.storage.engine import (
    Access,
    Damage,
    LogReader,
    LogState,
    MemoryNotes,
    Notes,
    Progress,
    Recovery,
    Timeline,
)
from timeleap.storage.index import EntryStore, IndexDamagedError, Reference, first_difference, header, index_path
from timeleap.storage.opening import LoadedLog
from timeleap.storage.reader import StoredLog
from timeleap.storage.timelines import Timelines
from timeleap.storage.viewed import ViewedEngine, head_text
from timeleap.storage.writer import LogThread, Outcome

# Polling, because it sees the same on every platform and on network file systems, and costs a microsecond.
PERIOD_SECONDS: Final = 0.1


class Watch:
    """Calls back when `look` says that something changed."""

    def __init__(self, look: Callable[[], Awaitable[bool]]) -> None:
        self._look = look
        self._callbacks: dict[object, Callable[[], None]] = {}
        self._task: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()

    def add(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` on the event loop after each change; returns what stops it."""
        key = object()
        self._callbacks[key] = callback
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

        def stop() -> None:
            self._callbacks.pop(key, None)
            if not self._callbacks:
                self.close()

        return stop

    def close(self) -> None:
        """Stop looking. Idempotent."""
        task, self._task = self._task, None
        self._callbacks.clear()
        if task is not None and not task.get_loop().is_closed():
            task.cancel()

    def tell(self) -> None:
        """Call everybody back."""
        for callback in list(self._callbacks.values()):
            callback()

    async def now(self) -> None:
        """Look at once; when this returns, what was there before the call has been seen and told."""
        async with self._turn:
            try:
                changed = await self._look()
            except (TimeleapError, OSError):
                return  # a log that cannot be read just now may be readable at the next look
            if changed:
                self.tell()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(PERIOD_SECONDS)
            await self.now()


# The check of a whole log behind a session's back: every checksum, and every line that was never parsed


@dataclass(slots=True)
class Validation:
    """A log parsed again, its entries in an index that is not yet in use.

    Attributes:
        log: The log with the new entries.
        index: The file they are in; None while they are in memory.
        lost: Where lines that were written are not there any more.
    """

    log: StoredLog
    index: OpenFile | None
    lost: Damage | None = None

    def discard(self) -> None:
        """It is not needed."""
        if self.index is not None:
            self.index.close()
            with suppress(OSError):  # the next open removes it
                durable.remove_file(self.index.path)


def validate(
    log: StoredLog,
    *,
    parsed: bool,
    writable: bool,
    abandoned: Callable[[], bool],
    progress: Progress | None = None,
) -> Validation | None:
    """Check a log. Blocking; it may be appended to meanwhile.

    Args:
        log: The log as it is now.
        parsed: Every line was parsed before: only the checksums are looked at.
        writable: New entries may be written beside the log.
        abandoned: Asked now and then whether anybody still wants to know.
        progress: Told how far it is.

    Returns:
        The log parsed again, lines that are not what was written being damaged now; None if there was no need.

    Raises:
        StorageFailureError: The operating system refused.
    """

    def told(done: int, total: int) -> None:
        if abandoned():
            raise _AbandonedError
        if progress is not None:
            progress(done, total)

    try:
        if log.file is None or (parsed and _unchanged(log, told)):
            return None
        return _reparsed(log, writable, told)
    except _AbandonedError:
        return None
    except OSError as error:
        raise StorageFailureError.of(error, "check the log", log.path) from error


def _reparsed(log: StoredLog, writable: bool, progress: Progress) -> Validation:
    index = durable.open_temporary(log.path.parent, log.path.name) if writable else None
    store = EntryStore(index, 0, writable=writable)
    found = Validation(StoredLog(log.path, log.file, store, LogState()), index)
    try:
        if index is not None and log.file is not None:
            index.pwrite(header(log.file.identity.inode, parsed=True), 0)
        continue_to(found, log, progress)
        progress(log.state.length, log.state.length)
    except BaseException:
        found.discard()
        raise
    return found


class _AbandonedError(Exception):
    """Nobody wants to know any more."""


def continue_to(found: Validation, log: StoredLog, progress: Progress | None = None) -> None:
    """Go on to where the log is now."""
    assert log.file is not None
    known = Reference(log.store, log.state.lines)
    state = found.log.state
    if found.log.open_ended:  # it may have got its line feed meanwhile
        state = found.log.store.state(state.lines - 1)
        found.log.store.truncate(state.lines)
    known.skip_to(state.length)
    scanned = scan.thoroughly(log.file, state, log.state.length, found.log.store, reference=known, progress=progress)
    found.lost = found.lost or known.lost
    found.log = StoredLog(log.path, log.file, found.log.store, scanned.state, open_ended=log.open_ended)


def adopt(found: Validation, log: StoredLog) -> StoredLog:
    """Put the new entries in the place of the log's index; nobody writes to the log meanwhile.

    Raises:
        OSError: The index cannot be put in place.
    """
    continue_to(found, log)
    if found.index is not None:
        durable.replace_file(found.index.path, index_path(log.path))
        found.index.reopened_at(index_path(log.path))
    return found.log


def same_history(state: LogState, other: LogState) -> bool:
    """True if two readings of the same bytes agree, but for `has_damage`, which only a thorough reading can know."""
    return replace(state, has_damage=other.has_damage) == other


def newly_found(before: list[Damage], after: list[Damage]) -> list[Damage]:
    """Damage in `after` at offsets where `before` has none."""
    known = {damage.offset for damage in before}
    return [damage for damage in after if damage.offset not in known]


def _unchanged(log: StoredLog, progress: Progress | None) -> bool:
    assert log.file is not None
    try:
        return first_difference(log.file, log.store, log.state.lines, progress) is None
    except IndexDamagedError:
        return False


T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Follower(ViewedEngine):
    """The half of an engine on a file that changes no log: it shows what is on disk, follows what others do, checks it."""

    def __init__(self, path: Path, access: Access, notes: Notes | None) -> None:
        """Use `JsonlEngine.open`."""
        self.path = path.absolute()
        self.access = access
        self._own_notes = MemoryNotes() if notes is None else None
        self._notes: Notes = notes if notes is not None else self._own_notes or MemoryNotes()
        self._timelines = Timelines(self.path, self._notes, keep_index=access == "write")
        self._watch = Watch(self._look)
        self._thread = LogThread(f"timeleap {self.path.parent.name}")
        self._log = StoredLog(self.path, None, EntryStore(), LogState())
        self._seen = 0  # bytes of the file that were looked at, what does not count included
        self._generation = 0
        self._recovery = Recovery()
        self._owned = False  # the log was opened for appending, under the lock
        self._believable = True  # the index file is of this log as it is
        self._parsed = True
        self._checked = False
        self._closed = False

    def head_at(self, state: LogState) -> str:
        """The head the present log has at `state`."""
        return head_text(self._notes.epoch, self._generation, self._ended(state))

    def as_reloaded(self) -> LogReader:
        """The log as it stands on disk, whatever its checksums were."""
        return load.load(self.path, writable=False, trust_index=False).log

    @property
    def recovery(self) -> Recovery:
        """Findings and repairs of opening the log."""
        return self._recovery

    def timelines(self) -> list[Timeline]:
        """All timelines, newest first."""
        return self._timelines.listed()

    def timeline(self, timeline_id: str) -> LogReader:
        """A reader of one timeline."""
        return self._timelines.reader(timeline_id)

    async def refresh(self) -> bool:
        """Show what is on disk now; says whether anything changed. For logs we do not hold the lock of."""
        while True:
            log = self._log
            found = await self._in_thread(opening.caught_up, log, self._seen)
            if found is None:
                return False
            if self._log is log:
                break  # else what was found is older than what is shown by now
        before, file, parsed = self.head, self._log.file, self._parsed
        if self.access == "read":
            self._notes.refresh()  # the number of a timeline that was removed again stands only there
        self._show(found)
        if self._log.file is file:  # it was only added to
            self._parsed = self._parsed and parsed
        return self.head != before

    async def validate_in_background(self, progress: Progress | None = None) -> list[Damage]:
        """Check what opening left unchecked: the bulk of a large log. For a task that is started after opening.

        Lines found to be damaged are no part of history from then on; if there are any, the head changes and the
        watchers are told.

        Returns:
            What was not known before.
        """
        if self._checked:
            self._checked = False  # opening has just looked at everything
            return []
        return await self.validate(progress)

    async def validate(self, progress: Progress | None = None) -> list[Damage]:
        """Check the whole log now, in a thread of its own; the log can be used meanwhile. Ends early if cancelled, or
        when the log is closed.

        Raises:
            StorageFailureError: The operating system refused.
        """
        thread = LogThread(f"timeleap check of {self.path.parent.name}")
        checking: Outcome[Validation | None]
        checking = thread.begin(
            partial(
                validate,
                self._log,
                parsed=self._parsed,
                writable=self.access == "write" and self._owned,
                abandoned=lambda: self._closed or checking.unwanted,
                progress=progress,
            )
        )
        thread.end()
        found = await checking.result_uncancelled()
        if checking.unwanted:
            if found is not None:
                found.discard()
            raise asyncio.CancelledError
        if found is None:
            return []
        if self.access == "read" or self._closed:
            return await self._adopt(found)
        return await self._writer.run(lambda: self._adopt(found))

    async def _adopt(self, found: Validation) -> list[Damage]:
        while True:
            log = self._log
            if self._closed or log.file is not found.log.file:
                found.discard()  # the log was closed or replaced meanwhile
                return []
            before, known = log.state, log.damage()
            try:
                adopted = await self._in_thread(adopt, found, log)
            except StorageFailureError:
                found.discard()
                raise
            if self._log is log:
                break  # else more was written by others, and is shown already
        self._log = adopted
        self._parsed = True
        if not same_history(before, self._log.state):
            if self.access == "write":
                await self._in_thread(self._notes.bump_epoch)
            self._watch.tell()
        lost = [found.lost] if found.lost is not None else []
        return lost + newly_found(known, self._log.damage())

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` when the log was changed by somebody else."""
        return self._watch.add(callback)

    async def catch_up(self) -> None:
        """Show what others have written up to now, and call back those who watch."""
        await self._watch.now()

    def _show(self, found: LoadedLog) -> None:
        """Show a newly loaded log."""
        log = found.loaded.log
        self._log = log
        self._seen = log.state.length + found.loaded.cut
        self._believable = not found.loaded.accepted
        self._parsed = found.loaded.parsed
        self._checked = found.loaded.parsed and log.state.length <= load.SMALL
        self._generation = max(found.highest, self._notes.rotation)
        self._recovery = found.recovery
        self._owned = False

    async def _look(self) -> bool:
        """Check for changes on behalf of a watcher; True if something has changed."""
        if self._writer.busy:
            return False
        there = durable.status(self.path)
        if there is None and self._log.file is None:
            return False
        same = there is not None and self._log.file is not None and there.identity == self._log.file.identity
        if same and there is not None and there.size == self._seen:
            return False
        return await self.refresh()

    async def _in_thread(self, work: Callable[[*Ts], T], *args: *Ts) -> T:
        """Do blocking work in this log's own thread; never torn.

        Raises:
            StorageFailureError: The operating system refused.
        """
        try:
            return await self._thread.do(work, *args)
        except StorageFailureError:
            raise
        except OSError as error:
            raise StorageFailureError.of(error, "use the log", self.path) from error
