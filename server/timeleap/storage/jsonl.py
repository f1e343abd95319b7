"""The `jsonl` engine: a log in a file with one JSON record a line, its index beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar, TypeVarTuple

from timeleap.errors import ExternallyModifiedError, StorageFailureError
from timeleap.storage import appending, durable, load, opening, rewrite, validation
from timeleap.storage.appending import UnwritableError, Written
from timeleap.storage.engine import (
    Access,
    Appended,
    Damage,
    Durability,
    LogReader,
    LogState,
    Progress,
    Recovery,
    Replaced,
    Replacement,
    Timeline,
)
from timeleap.storage.index import EntryStore
from timeleap.storage.lock import Endpoint, LockMode, SessionLock
from timeleap.storage.notes import MemoryNotes, Notes
from timeleap.storage.opening import Found
from timeleap.storage.outcome import Outcome
from timeleap.storage.reader import StoredLog
from timeleap.storage.thread import LogThread
from timeleap.storage.timelines import Timelines
from timeleap.storage.validation import Validation
from timeleap.storage.viewed import ViewedEngine, head_text
from timeleap.storage.watch import Watch
from timeleap.storage.writer import Group, Writer, group_on

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class JsonlEngine(ViewedEngine):
    """One log in a file, opened for writing or to be read.

    With lock mode `hold` the lock is held from `open` to `aclose`; with `per-write` it is taken for each group of
    writes, and what others wrote in between is taken over first. A log opened to be read takes no lock and writes
    nothing at all; it shows what its writer does while somebody watches it, or after `refresh`.
    """

    def __init__(self, path: Path, access: Access, durability: Durability, lock: LockMode, notes: Notes | None) -> None:
        """Use `open`."""
        self.path = path.absolute()
        self.access = access
        self.durability: Durability = durability
        self.lock_mode: LockMode = lock
        self._own_notes = MemoryNotes() if notes is None else None
        self._notes: Notes = notes if notes is not None else self._own_notes or MemoryNotes()
        self._lock = SessionLock(self.path)
        self._timelines = Timelines(self.path, self._notes, keep_index=access == "write")
        self._writer = Writer(_Medium(self))
        self._watch = Watch(self._look)
        self._thread = LogThread(f"timeleap {self.path.parent.name}")
        self._log = StoredLog(self.path, None, EntryStore(), LogState())
        self._seen = 0  # bytes of the file that were looked at, what does not count included
        self._generation = 0
        self._recovery = Recovery()
        self._modified = False
        self._refusal: UnwritableError | None = None
        self._owned = False  # the log was opened for appending, under the lock
        self._believable = True  # the index file is of this log as it is
        self._parsed = True
        self._checked = False
        self._closed = False

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        access: Access = "write",
        durability: Durability = "disk",
        lock: LockMode = "hold",
        notes: Notes | None = None,
        progress: Progress | None = None,
        endpoint: Endpoint | None = None,
    ) -> JsonlEngine:
        """Open a log; it need not exist.

        Args:
            path: The log file; any name. Its timelines, index and lock stand beside it.
            access: `read` takes no lock and writes nothing.
            durability: What a returned `append` means.
            lock: Hold the lock while open, or take it for each write.
            notes: What is remembered beside the log; in memory if not given.
            progress: Told about a long scan, from another thread.
            endpoint: How others reach us while we hold the lock.

        Raises:
            SessionLockedError: Another process holds the lock.
            StorageFailureError: The log cannot be opened, or not for writing.
        """
        engine = cls(path, access, durability, lock, notes)
        engine._lock.reachable_at(endpoint)
        try:
            if access == "write" and lock == "hold":
                await engine.hold(progress)
            else:
                engine._show(await engine._hop(opening.looked_at, engine.path, progress))
        except BaseException:
            await engine.aclose()
            raise
        return engine

    async def hold(self, progress: Progress | None = None) -> None:
        """Take the lock for as long as the log is open, and mend what is to be mended."""
        await self._lock.acquire("hold")
        self.lock_mode = "hold"
        await self._own(progress)

    async def adapt(
        self,
        *,
        durability: Durability,
        lock: LockMode,
        notes: Notes | None,
        progress: Progress | None = None,
        endpoint: Endpoint | None = None,
    ) -> None:
        """Serve one more user: hold the lock if it asks for it, take its notes if there are none, sync if it does.

        Without the lock others may have written meanwhile: whoever joins sees what is on disk now.
        """
        if durability == "disk":
            self.durability = durability
        if notes is not None and self._own_notes is not None:
            self._own_notes = None
            self._notes = notes
            self._timelines = Timelines(self.path, notes, keep_index=self.access == "write")
            self._generation = max(self._generation, notes.rotation)
        if lock == "hold" and self.access == "write" and self.lock_mode != "hold":
            self._lock.reachable_at(endpoint)
            await self._writer.run(lambda: self._keep_lock(progress))
        if self.lock_mode == "per-write":
            await self._look()

    async def let_go(self) -> None:
        """Take the lock only for each write from now on."""
        await self._writer.run(self._free_lock)

    async def _keep_lock(self, progress: Progress | None) -> None:
        self.lock_mode = "hold"
        self._lock.announce("hold")
        await self._own(progress)

    async def _free_lock(self) -> None:
        self.lock_mode = "per-write"
        self._modified = False

    async def _own(self, progress: Progress | None = None, *, believe: bool = True) -> None:
        """Open the log for appending; we have the lock."""
        found = await self._hop(opening.recovered, self.path, self.lock_mode == "hold", progress, believe)
        earlier = self._recovery
        self._show(found)
        self._owned = True
        self._recovery = replace(
            found.recovery,
            quarantined=(*earlier.quarantined, *found.recovery.quarantined),
            cut_bytes=earlier.cut_bytes + found.recovery.cut_bytes,
        )

    def _show(self, found: Found) -> None:
        """Show a newly loaded log."""
        log = found.loaded.log
        self._log = log
        self._seen = log.state.length + found.loaded.cut
        self._believable = not found.loaded.accepted
        self._parsed = found.loaded.parsed
        self._checked = found.loaded.parsed and log.state.length <= load.SMALL
        self._generation = max(found.highest, self._notes.rotation)
        self._recovery = found.recovery

    # State beside the log

    def head_at(self, state: LogState) -> str:
        """The head the present log has at `state`."""
        return head_text(self._notes.epoch, self._generation, state)

    @property
    def recovery(self) -> Recovery:
        """What opening found and mended."""
        return self._recovery

    @property
    def externally_modified(self) -> bool:
        """Whether a program that takes no lock has changed the log."""
        if self._owned and self._lock.held and not self._modified and not self._writer.busy:
            self._modified = not appending.untouched(self._log)
        return self._modified

    def timelines(self) -> list[Timeline]:
        """All timelines, newest first."""
        return self._timelines.listed()

    def timeline(self, timeline_id: str) -> LogReader:
        """A reader of one timeline."""
        return self._timelines.reader(timeline_id)

    def remove_timeline(self, timeline_id: str) -> None:
        """Delete a timeline for good; its number is not used again."""
        self._check_writable()
        self._timelines.remove(timeline_id)

    # Changing

    async def reload(self) -> Recovery:
        """Take over what is on disk now, as it is; the head changes."""
        if self.access == "read":
            await self.refresh()
            return self._recovery
        return await self._writer.run(self._reload)

    async def refresh(self) -> bool:
        """Show what is on disk now; says whether anything changed. For logs we do not hold the lock of."""
        found = await self._hop(opening.caught_up, self._log, self._seen)
        if found is None:
            return False
        before, file, parsed = self.head, self._log.file, self._parsed
        self._owned = False
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
        found = await checking.kept()
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
        if self._closed or self._log.file is not found.log.file:
            found.discard()  # the log was closed or replaced meanwhile
            return []
        before, known = self._log.state, self._log.damage()
        try:
            self._log = await self._hop(validation.adopt, found, self._log)
        except StorageFailureError:
            found.discard()
            raise
        self._parsed = True
        if not validation.same_history(before, self._log.state):
            if self.access == "write":
                await self._hop(self._notes.bump_epoch)
            self._watch.tell()
        lost = [found.lost] if found.lost is not None else []
        return lost + validation.newly_found(known, self._log.damage())

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` when the log was changed by somebody else."""
        return self._watch.add(callback)

    async def catch_up(self) -> None:
        """Show what others have written up to now, and call back those who watch."""
        await self._watch.now()

    async def aclose(self) -> None:
        """Finish what was accepted, then release lock and descriptors. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._watch.close()
        await self._writer.finished()
        self._lock.release()
        self._thread.end()

    async def _replace(self, plan: Callable[[LogState], Replacement]) -> Replaced:
        self._check_unmodified()
        before = self._log.state
        replacement = plan(before)
        lowest = max(self._generation, self._notes.rotation, self._notes.noted) + 1
        try:
            done = await self._hop(rewrite.replace_believing, self._log, replacement, self._timelines, lowest)
        except UnwritableError as error:
            self._refusal = error
            raise
        self._log = done.log
        self._seen = done.log.state.length
        self._generation = done.number
        if self._own_notes is not None:
            self._own_notes.note(done.timeline_id, replacement.facts)
        return Replaced(before, done.log.state, done.timeline_id, self.head)

    async def _reload(self) -> Recovery:
        found = await self._hop(opening.recovered, self.path, self.lock_mode == "hold", None, False)
        await self._hop(self._notes.bump_epoch)
        self._refusal, self._modified = None, False
        self._show(found)
        self._owned = True
        return self._recovery

    async def _commit(self, group: Group) -> list[Appended]:
        if self.durability == "os" or group.empty:
            return self._commit_now(group)
        self._check_unmodified()
        try:
            written = await self._hop(appending.write_group, self._log, group, self.durability)
        except (ExternallyModifiedError, UnwritableError) as error:
            self._note(error)
            raise
        return self._committed(written)

    def _commit_now(self, group: Group) -> list[Appended]:
        """Without a sync a write costs a fraction of the trip to another thread."""
        self._check_unmodified()
        if group.empty:
            return [Appended(self._log.state, self._log.state, self.head) for _ in group.spans]
        try:
            written = appending.write_group(self._log, group, self.durability)
        except (ExternallyModifiedError, UnwritableError) as error:
            self._note(error)
            raise
        return self._committed(written)

    def _committed(self, written: Written) -> list[Appended]:
        self._log = written.log
        self._seen = written.log.state.length
        self._modified = written.slipped and self.lock_mode == "hold"
        return [Appended(before, after, self.head_at(after)) for before, after in written.spans]

    def _note(self, error: ExternallyModifiedError | UnwritableError) -> None:
        """Remember what keeps us from writing."""
        if isinstance(error, UnwritableError):
            self._refusal = error
        else:
            self._modified = self.lock_mode == "hold"

    def _check_unmodified(self) -> None:
        if self._refusal is not None:
            raise self._refusal
        if self._modified:
            raise ExternallyModifiedError(
                f"{self.path.name} was changed by another program; reload the session to take over its state"
            )

    async def _enter(self) -> None:
        if self.lock_mode == "hold":
            return
        await self._lock.acquire("per-write")
        try:
            # The usual case, that nobody else wrote, is seen without the trip to the log's thread.
            changed = not (self._owned and appending.untouched(self._log)) and await self.refresh()
            if changed or not self._owned:
                await self._own(believe=self._believable)
        except BaseException:
            self._lock.release()
            raise

    async def _leave(self) -> None:
        if self.lock_mode == "per-write":
            self._lock.release()

    async def _look(self) -> bool:
        if self.access == "write" and self.lock_mode == "hold":
            before = self._modified
            return self.externally_modified and not before
        if self._writer.busy:
            return False
        there = durable.status(self.path)
        if there is None and self._log.file is None:
            return False
        same = there is not None and self._log.file is not None and there.identity == self._log.file.identity
        if same and there is not None and there.size == self._seen:
            return False
        return await self.refresh()

    async def _hop(self, work: Callable[[*Ts], T], *args: *Ts) -> T:
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


class _Medium:
    """What the engine is to its writer."""

    def __init__(self, engine: JsonlEngine) -> None:
        self._engine = engine

    def immediate(self) -> bool:
        return self._engine.durability == "os" and self._engine.lock_mode == "hold"

    def commit_now(self, group: Group) -> list[Appended]:
        return self._engine._commit_now(group)

    async def enter(self) -> None:
        await self._engine._enter()

    async def leave(self) -> None:
        await self._engine._leave()

    def group(self) -> Group:
        return group_on(self._engine._log)

    async def commit(self, group: Group) -> list[Appended]:
        return await self._engine._commit(group)
