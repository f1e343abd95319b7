"""A log in a file as it is shown: what is on disk now, what others write to it, and what is wrong with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar, TypeVarTuple

from timeleap.errors import StorageFailureError
from timeleap.storage import durable, load, opening, validation
from timeleap.storage.engine import Access, Damage, LogReader, LogState, Progress, Recovery, Timeline
from timeleap.storage.engine_metadata import MemoryNotes, Notes
from timeleap.storage.index import EntryStore
from timeleap.storage.opening import LoadedLog
from timeleap.storage.reader import StoredLog
from timeleap.storage.timelines import Timelines
from timeleap.storage.validation import Validation
from timeleap.storage.viewed import ViewedEngine, head_text
from timeleap.storage.watch import Watch
from timeleap.storage.writer import LogThread, Outcome

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
                validation.validate,
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
                adopted = await self._in_thread(validation.adopt, found, log)
            except StorageFailureError:
                found.discard()
                raise
            if self._log is log:
                break  # else more was written by others, and is shown already
        self._log = adopted
        self._parsed = True
        if not validation.same_history(before, self._log.state):
            if self.access == "write":
                await self._in_thread(self._notes.bump_epoch)
            self._watch.tell()
        lost = [found.lost] if found.lost is not None else []
        return lost + validation.newly_found(known, self._log.damage())

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
