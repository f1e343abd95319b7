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
from timeleap.storage import durable, load, recovery, scan
from timeleap.storage.durable import OpenFile
from timeleap.storage.engine import Access, Damage, LogState, Notes, Progress, Recovery
from timeleap.storage.index import EntryStore, IndexDamagedError, Reference, first_difference, header, index_path
from timeleap.storage.reader import StoredLog
from timeleap.storage.recovery import LoadedLog
from timeleap.storage.timelines import MemoryNotes, Timelines
from timeleap.storage.write_queue import LogThread, Outcome

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

AtTurn = Callable[[Callable[[], Awaitable[tuple[list[Damage], bool]]]], Awaitable[tuple[list[Damage], bool]]]

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


class Follower:
    """A log as it stands on disk: shown, brought up to date when others write, and checked. Changes no log itself.

    Attributes:
        path: The log.
        log: The log as it is now.
        notes: What is remembered beside it.
        own_notes: The same object where it lives in memory only.
        timelines: Its timelines.
        generation: The highest number a timeline ever had.
        recovery: Findings and repairs of opening it.
        owned: It was opened for appending, under the lock.
        trust_index: The index file is of this log as it is.
        closed: It is not shown any more.
    """

    def __init__(self, path: Path, access: Access, notes: Notes | None) -> None:
        self.path = path
        self.own_notes = MemoryNotes() if notes is None else None
        self.notes: Notes = notes if notes is not None else self.own_notes or MemoryNotes()
        self.timelines = Timelines(path, self.notes, keep_index=access == "write")
        self.log = StoredLog(path, None, EntryStore(), LogState())
        self.generation = 0
        self.recovery = Recovery()
        self.owned = False
        self.trust_index = True
        self.closed = False
        self._access = access
        self._thread = LogThread(f"timeleap {path.parent.name}")
        self._seen = 0  # bytes of the file that were looked at, what does not count included
        self._parsed = True
        self._checked = False

    @property
    def head(self) -> str:
        """The head of the log as it is now."""
        return self.head_at(self.log.state)

    def head_at(self, state: LogState) -> str:
        """The head the log has at `state`."""
        return self.log.head(self.notes.epoch, self.generation, state)

    def take_notes(self, notes: Notes) -> None:
        """Use these notes, if there are only such in memory."""
        if self.own_notes is not None:
            self.own_notes = None
            self.notes = notes
            self.timelines = Timelines(self.path, notes, keep_index=self._access == "write")
            self.generation = max(self.generation, notes.rotation)

    async def look_at(self, progress: Progress | None) -> None:
        """Show what is on disk, and change nothing there."""
        self._show(await self.in_thread(recovery.looked_at, self.path, progress))

    async def recover(self, create: bool, progress: Progress | None, *, trust_index: bool) -> None:
        """Mend what is on disk and show it; we have the lock."""
        found = await self.in_thread(recovery.recovered, self.path, create, progress, trust_index)
        earlier = self.recovery
        self._show(found, owned=True)
        self.recovery = replace(
            found.recovery,
            quarantined=(*earlier.quarantined, *found.recovery.quarantined),
            cut_bytes=earlier.cut_bytes + found.recovery.cut_bytes,
        )

    async def take_as_it_is(self, create: bool) -> None:
        """The same, whatever the checksums were; the head changes."""
        found = await self.in_thread(recovery.recovered, self.path, create, None, False)
        await self.in_thread(self.notes.bump_epoch)
        self._show(found, owned=True)

    def wrote(self, log: StoredLog) -> None:
        """Show the log after a change of ours."""
        self.log = log
        self._seen = log.state.length

    async def refresh(self) -> bool:
        """Show what is on disk now; says whether anything changed. For logs we do not hold the lock of."""
        while True:
            log = self.log
            found = await self.in_thread(recovery.caught_up, log, self._seen)
            if found is None:
                return False
            if self.log is log:
                break  # else what was found is older than what is shown by now
        before, parsed = self.head, self._parsed
        if self._access == "read":
            self.notes.refresh()  # the number of a timeline that was removed again stands only there
        self._show(found)
        if self.log.file is log.file:  # it was only added to
            self._parsed = self._parsed and parsed
        return self.head != before

    async def refresh_if_changed(self) -> bool:
        """The same at the cost of a look at the file's size, as long as that does not change."""
        there, file = durable.status(self.path), self.log.file
        if there is None and file is None:
            return False
        if there is not None and file is not None and (there.identity, there.size) == (file.identity, self._seen):
            return False
        return await self.refresh()

    def just_checked(self) -> bool:
        """True, once, if opening has just looked at everything."""
        checked, self._checked = self._checked, False
        return checked

    async def validate(self, progress: Progress | None, at_turn: AtTurn | None) -> tuple[list[Damage], bool]:
        """Check the whole log, in a thread of its own, and show it as the check found it.

        Args:
            progress: Told how far it is.
            at_turn: Runs the second step at a turn of its own; None where nobody here writes.

        Returns:
            Damage that was not known before, and whether the history changed.

        Raises:
            StorageFailureError: The operating system refused.
        """
        thread = LogThread(f"timeleap check of {self.path.parent.name}")
        checking: Outcome[Validation | None] | None = None  # the thread may look at it before `begin` returns
        checking = thread.begin(
            partial(
                validate,
                self.log,
                parsed=self._parsed,
                writable=self._access == "write" and self.owned,
                abandoned=lambda: self.closed or (checking is not None and checking.unwanted),
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
            return [], False
        if at_turn is None or self.closed:
            return await self._adopt(found)
        return await at_turn(lambda: self._adopt(found))

    async def _adopt(self, found: Validation) -> tuple[list[Damage], bool]:
        while True:
            log = self.log
            if self.closed or log.file is not found.log.file:
                found.discard()  # the log was closed or replaced meanwhile
                return [], False
            before, known = log.state, log.damage()
            try:
                adopted = await self.in_thread(adopt, found, log)
            except StorageFailureError:
                found.discard()
                raise
            if self.log is log:
                break  # else more was written by others, and is shown already
        self.log = adopted
        self._parsed = True
        changed = not same_history(before, adopted.state)
        if changed and self._access == "write":
            await self.in_thread(self.notes.bump_epoch)
        lost = [found.lost] if found.lost is not None else []
        return lost + newly_found(known, self.log.damage()), changed

    async def in_thread(self, work: Callable[[*Ts], T], *args: *Ts) -> T:
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

    def end(self) -> None:
        """Let the thread go."""
        self._thread.end()

    def _show(self, found: LoadedLog, *, owned: bool = False) -> None:
        log = found.loaded.log
        self.log = log
        self._seen = log.state.length + found.loaded.cut
        self.trust_index = not found.loaded.accepted
        self._parsed = found.loaded.parsed
        self._checked = found.loaded.parsed and log.state.length <= load.SMALL
        self.generation = max(found.highest, self.notes.rotation)
        self.recovery = found.recovery
        self.owned = owned
