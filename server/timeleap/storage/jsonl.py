"""The `jsonl` engine: a log in a file as it is shown (`Follower`), and the right to write to it (`LockedLog`)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar, TypeVarTuple

from msgspec.structs import replace

from timeleap.errors import ExternallyModifiedError, ReadOnlyError, StorageFailureError
from timeleap.placeholders import placeholders
from timeleap.storage import appending, durable, load, rewrite, scrub, validation
from timeleap.storage.appending import UnwritableError, WriteGroup, WriteQueue, Written, group_on
from timeleap.storage.damage import Damage, Recovery
from timeleap.storage.engine import Drafted, LogEngine
from timeleap.storage.external_change import changed_log, undecided
from timeleap.storage.index import index_path
from timeleap.storage.log_notes import MemoryNotes, Notes
from timeleap.storage.log_values import (
    Access,
    Appended,
    AppendStep,
    Durability,
    Edit,
    LogState,
    NewRecord,
    Plan,
    Progress,
    Replaced,
    Replacement,
    Timeline,
)
from timeleap.storage.opened_log import Loaded
from timeleap.storage.owner_lock import Endpoint, LockMode, SessionLock
from timeleap.storage.reader import LogReader, StoredLog, head_end, head_start
from timeleap.storage.rewrite import NewLog, Timelines
from timeleap.storage.watch import Watch
from timeleap.uncancelled_work import LogThread

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Follower:
    """A log as it stands on disk: shown, brought up to date when others write, and checked. Changes no log itself."""

    def __init__(self, path: Path, access: Access, notes: Notes | None) -> None:
        self.path = path
        self.own_notes = MemoryNotes() if notes is None else None  # `notes` where they live in memory only
        self.notes: Notes = notes if notes is not None else self.own_notes or MemoryNotes()
        self.timelines = Timelines(path, self.notes, keep_index=access == "write")
        self.log = StoredLog(path)
        self.generation = 0  # the highest number a timeline ever had
        self.recovery = Recovery()
        self.owned = False  # opened for appending, under the lock
        self.trust_index = True  # the index file is of this log as it is
        self.closed = False
        self._access = access
        self.thread = LogThread(f"timeleap {path.parent.name}")
        self._seen = 0  # bytes of the file that were looked at, what does not count included
        self._parsed = True
        self.working = 0  # so many steps wait for the log's thread, or are done there
        self.just_checked = False  # opening has looked at everything
        # Acknowledged lines that are not there: nothing is written until that is accepted.
        self.lost: Damage | None = None
        self._index_seen: durable.FileStatus | None = None  # the index that says what is lost

    def head_at(self, state: LogState) -> str:
        return self.log.head(self.notes.epoch, self.generation, state)

    def take_notes(self, notes: Notes) -> None:
        """Use these notes, if there are only such in memory."""
        if self.own_notes is not None:
            self.own_notes = None
            self.notes = notes
            self.timelines = Timelines(self.path, notes, keep_index=self._access == "write")
            self.generation = max(self.generation, notes.rotation)

    async def look_at(self, progress: Progress | None) -> None:
        self._show(await self.in_thread(load.looked_at, self.path, progress, self.notes.existing))

    async def recover(self, create: bool, progress: Progress | None, *, trust_index: bool) -> None:
        """Mend what is on disk and show it; we have the lock."""
        found = await self.in_thread(load.recovered, self.path, create, progress, trust_index, self.notes.existing)
        quarantined = (*self.recovery.quarantined, *found.recovery.quarantined)
        self._show(found, owned=not found.undecided)
        self.recovery = replace(found.recovery, quarantined=quarantined)

    async def reload(self, create: bool) -> None:
        """Mend and show the log, whatever the checksums were; the head changes. What it has lost is told, once."""
        self.notes.refresh()  # now that we have the lock: before, those of another folder may have been read
        taken = partial(load.taken_over, told=self.lost is not None)
        found = await self.in_thread(taken, self.path, create, self.log)
        await self.in_thread(self.notes.bump_epoch)
        self._show(found, owned=True)

    def wrote(self, log: StoredLog) -> None:
        self.log = log
        self._seen = log.state.length

    async def refresh(self) -> bool:
        """Show what is on disk now; says whether anything changed. For logs we do not hold the lock of."""
        while True:
            log = self.log
            found = await self.in_thread(load.caught_up, log, self._seen)
            if found is None and self._decided():
                found = await self.in_thread(load.looked_at, self.path, None, self.notes.existing)
            if found is None:
                return False
            if self.log is log:
                break  # else what was found is older than what is shown by now
        before, parsed = self.head_at(log.state), self._parsed
        if self._access == "read":
            self.notes.refresh()  # the number of a timeline that was removed again stands only there
        self._show(found)
        if self.log.file is log.file:  # it was only added to
            self._parsed = self._parsed and parsed
        return self.head_at(self.log.state) != before

    async def refresh_if_changed(self) -> bool:
        """Refresh at the cost of a look at the file's size, as long as that does not change."""
        there, file = durable.status(self.path), self.log.file
        shown = None if file is None else (file.identity, self._seen)
        changed = (None if there is None else (there.identity, there.size)) != shown or self._decided()
        return changed and await self.refresh()

    def _decided(self) -> bool:
        """True if somebody may have accepted what the log has lost: another index is beside it."""
        return self.lost is not None and durable.status(index_path(self.path)) != self._index_seen

    async def check(self, progress: Progress | None) -> validation.Validation | None:
        """Check the whole log, in a thread of its own; None if there was no need, or nobody needs it any more."""
        writable = self._access == "write" and self.owned
        return await validation.validate_in_thread(
            self.log, parsed=self._parsed, writable=writable, abandoned=self._stand_back, progress=progress
        )

    async def adopt(self, found: validation.Validation) -> tuple[list[Damage], bool]:
        """Show the log as a check found it. Returns damage that was not known, and whether the history changed."""
        while True:
            log = self.log
            if self.closed or log.file is not found.log.file:
                found.discard()  # the log was closed or replaced meanwhile
                return [], False
            before, known = log.state, {damage.offset for damage in log.damage()}
            try:
                adopted = await self.in_thread(validation.adopt, found, log)
            except StorageFailureError:
                found.discard()
                raise
            if self.log is log:
                break  # else more was written by others, and is shown already
        self.log = adopted
        self._parsed = True
        # Two readings of the same bytes may differ in `has_damage` alone, which only a thorough one can know.
        changed = replace(before, has_damage=adopted.state.has_damage) != adopted.state
        if changed and self._access == "write":
            await self.in_thread(self.notes.bump_epoch)
        lost = [found.lost] if found.lost is not None else []
        return lost + [damage for damage in self.log.damage() if damage.offset not in known], changed

    async def in_thread(self, work: Callable[[*Ts], T], *args: *Ts) -> T:
        """Do blocking work in this log's own thread; never torn. Raises StorageFailureError for an OSError."""
        self.working += 1
        try:
            with durable.storage_errors("use the log", self.path):
                return await self.thread.do(work, *args)
        finally:
            self.working -= 1

    def _stand_back(self) -> bool:
        """Called now and then by the thread that checks the log: what somebody waits for goes first, for a second."""
        patience = time.monotonic() + 1.0
        while self.working and not self.closed and time.monotonic() < patience:
            time.sleep(0.002)
        return self.closed

    def _show(self, found: Loaded, *, owned: bool = False) -> None:
        self.log = found.log
        self._seen = found.log.state.length + found.cut
        self.trust_index = not found.accepted
        self._parsed = found.parsed
        self.just_checked = found.checked
        self.generation = max(found.highest, self.notes.rotation)
        self.recovery = found.recovery
        self.owned = owned
        self.lost = found.lost if found.undecided else None
        self._index_seen = durable.status(index_path(self.path)) if self.lost is not None else None


class LockedLog(WriteQueue):
    """The end of a log that we have the lock of, or take it for each write, and the queue of what changes it.

    Attributes:
        lock_mode: `hold`: the lock is held while the log is open; `per-write`: it is taken for each group of writes,
            and what others wrote in between is taken over first.
    """

    def __init__(self, shown: Follower, durability: Durability, lock_mode: LockMode) -> None:
        super().__init__()
        self.durability: Durability = durability
        self.lock_mode: LockMode = lock_mode
        self.lock = SessionLock(shown.path)
        self.modified = False  # a program that takes no lock has changed the log
        self.refusal: UnwritableError | None = None  # why nothing can be written any more
        self._shown = shown
        self._writer = appending.GroupWriter()
        self._replaced: tuple[NewLog, StoredLog] | None = None  # a log that has taken its place and is yet to be shown

    async def own(self, progress: Progress | None = None, *, trust_index: bool = True) -> None:
        """Mend what is to be mended and open the log for appending; we have the lock."""
        await self._shown.recover(self.lock_mode == "hold", progress, trust_index=trust_index)
        if self.durability == "os":
            appending.note_unsynced(self._shown.log)

    async def hold(self, progress: Progress | None) -> None:
        self.lock_mode = "hold"
        try:
            self.lock.write_record("hold")
            await self.own(progress)
        except BaseException:
            self.lock_mode = "per-write"  # nobody has it held: it is released at the end of this turn
            raise

    async def let_go(self) -> None:
        self.lock_mode, self.modified = "per-write", False

    def look(self) -> bool:
        """Look whether a program that takes no lock has changed the log."""
        shown = self._shown
        if shown.owned and self.lock.held and not self.modified:
            self.modified = not (appending.untouched(shown.log) and appending.keeps_out(self.lock.place))
        return self.modified

    def keep_to_lock(self) -> None:
        """Refuse to change what may be another process's by now, or to tell that it was changed."""
        if self.lock_mode == "hold" and not appending.keeps_out(self.lock.place):
            self.modified = True
            raise changed_log(self._shown.log)

    def check_unmodified(self) -> None:
        if self.refusal is not None:
            raise self.refusal
        lost = self._shown.lost
        if lost is not None:
            raise undecided(lost.message)
        if self.durability == "disk":  # without a sync one look counts: the one after the write
            self.keep_to_lock()
        if self.modified:
            raise changed_log(self._shown.log)

    def check_rewritable(self, from_timeline: str | None = "") -> None:
        """Refuse to rewrite a log that another program has changed."""
        shown = self._shown
        # A log that is gone may get a timeline's lines without a reload: that is a decision, and overwrites nothing.
        gone = shown.lost is not None and shown.log.file is None and from_timeline is not None
        if not gone or shown.path.name in placeholders(durable.list_directory(shown.path.parent)):
            self.check_unmodified()

    def begin(self, job: Callable[[LogState], Awaitable[T]], rewrites: bool) -> Awaitable[T]:
        self.keep_to_lock()
        if rewrites:
            self.check_rewritable()
        return job(self._shown.log.state)

    async def rewrite(self, steps: Callable[[], T]) -> T:
        try:
            return await self._shown.in_thread(steps)
        finally:
            # Also where a step after it has failed: the log is in its place.
            if self._replaced is not None:
                self._show(*self._replaced)
                self._replaced = None

    @contextmanager
    def draft(self, replacement: Replacement) -> Iterator[Drafted]:
        shown = self._shown
        self.check_rewritable(replacement.from_timeline)
        lowest = max(shown.generation, shown.notes.rotation, shown.notes.noted) + 1
        new = rewrite.draft_log(shown.log, replacement, shown.timelines, lowest)
        try:
            yield new
        except BaseException:
            new.draft.discard()
            raise

    def put_in_place(self, new: Drafted) -> Replaced:
        assert isinstance(new, NewLog)
        shown, before = self._shown, self._shown.log.state
        try:
            log = rewrite.commit_log(new, shown.timelines, self.keep_to_lock)
        except UnwritableError as error:
            self.refusal = error
            raise
        self._replaced = new, log
        return Replaced(before, log.state, new.kept_as or "", new.head if new.replaces else shown.head_at(before))

    def _show(self, new: NewLog, log: StoredLog) -> None:
        shown, name = self._shown, new.kept_as
        shown.wrote(log)
        if shown.lost is not None:  # a log that was gone
            shown.lost, shown.owned, shown.recovery = None, True, Recovery()
        if self.durability == "os":
            appending.note_unsynced(self._shown.log)
        if new.replaces:
            shown.generation = max(shown.generation, new.number)
        if shown.own_notes is not None and name:
            shown.own_notes.note(name, new.replacement.facts)

    async def revise(self, edit: Edit, timeline_id: str | None) -> int:
        self.check_unmodified()
        shown = self._shown
        if timeline_id is not None:
            path, changed_it = shown.timelines.path(timeline_id), shown.notes.bump_epoch
            return await shown.in_thread(scrub.revise_closed, path, edit, changed_it)
        log, changed = await shown.in_thread(self._noting, scrub.revise_live, shown.log, edit, shown.notes.bump_epoch)
        shown.wrote(log)
        return changed

    async def reload(self) -> None:
        if self.lock_mode == "hold":
            await self.lock.acquire("hold")  # another file where the one of before has lost its name
        await self._shown.reload(self.lock_mode == "hold" or self._shown.lost is not None)
        self.refusal, self.modified = None, False

    def immediate(self) -> bool:
        return self.durability == "os" and self.lock_mode == "hold"

    @property
    def idle(self) -> bool:
        return self._task is None and not self._waiting and self.lock_mode == "hold"

    def group(self) -> WriteGroup:
        return group_on(self._shown.log)

    def _append_alone(self, plan: Plan, mark: bool) -> Appended:
        shown, log = self._shown, self._shown.log
        file, before = log.file, log.state
        if file is None or log.open_ended:
            return super()._append_alone(plan, mark)
        if len(records := plan(before)) != 1:
            return super()._append_alone(lambda _: records, mark)
        self.check_unmodified()
        after = self._noting(appending.write_record, log, file, records[0])
        self.keep_to_lock()
        if not isinstance(after, LogState):
            return self._committed(after)[0]
        shown.wrote(log.at(after))
        return Appended(before, after, head_start(shown.notes.epoch, shown.generation) + head_end(after))

    async def enter(self) -> None:
        if self.lock_mode == "hold":
            return
        await self.lock.acquire("per-write")
        try:
            # The usual case, that nobody else wrote, is seen without the trip to the log's thread.
            changed = not (self._shown.owned and appending.untouched(self._shown.log)) and await self._shown.refresh()
            if changed or not self._shown.owned:
                await self.own(trust_index=self._shown.trust_index)
        except BaseException:
            self.lock.release()
            raise

    async def leave(self) -> None:
        if self.lock_mode == "per-write":
            self.lock.release()

    async def commit(self, group: WriteGroup) -> list[Appended]:
        # Only what waits alone: while a thread syncs for many, the event loop reads what the next sync is for.
        alone = len(group.spans) == 1 and not self._waiting and not self._shown.working
        if self.durability == "os" or group.empty or (alone and self._writer.quick):
            return self.write(group)
        self.check_unmodified()
        return self._committed(await self._shown.in_thread(self._write, group))

    def write(self, group: WriteGroup) -> list[Appended]:
        """Without a sync, or with a quick one, a write costs a fraction of the trip to another thread."""
        self.check_unmodified()
        if group.after is group.before:
            return [Appended(state := self._shown.log.state, state, self._shown.head_at(state)) for _ in group.spans]
        return self._committed(self._write(group))

    def _write(self, group: WriteGroup) -> Written:
        write = self._writer.timed if self.durability == "disk" else appending.write_group
        written = self._noting(write, self._shown.log, group, self.durability)
        self.keep_to_lock()  # who has copied the folder, and replaced it, may not have what was written
        return written

    def _noting(self, write: Callable[[*Ts], T], *args: *Ts) -> T:
        try:
            return write(*args)
        except UnwritableError as error:
            self.refusal = error
            raise
        except ExternallyModifiedError:
            self.modified = self.lock_mode == "hold"
            raise

    def _committed(self, written: Written) -> list[Appended]:
        shown, log = self._shown, written.log
        shown.wrote(log)
        self.modified = written.slipped and self.lock_mode == "hold"
        start = head_start(shown.notes.epoch, shown.generation)
        return [Appended(before, after, start + head_end(after)) for before, after in written.spans]


class JsonlEngine(LogEngine):
    """A log in a file. Opened to be read it takes no lock and writes nothing at all; it shows what its writer does
    while somebody watches it, or after `refresh`."""

    def __init__(self, path: Path, access: Access, durability: Durability, lock: LockMode, notes: Notes | None) -> None:
        self.path = path.absolute()
        self.access = access
        self._shown = Follower(self.path, access, notes)
        self._locked = LockedLog(self._shown, durability, lock)
        self._watch = Watch(self._look)
        self._closing: asyncio.Task[None] | None = None
        self._change_told = False  # watchers know that a program that takes no lock has changed the log

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
        """Open a log of any name, which need not exist; timelines, index and lock stand beside it.

        Args:
            access: `read` takes no lock and writes nothing.
            lock: Hold the lock while open, or take it for each write.
            notes: What is remembered beside the log; in memory if not given.
            progress: Told about a long scan, from another thread.
            endpoint: How others reach us while we hold the lock.

        Raises:
            SessionLockedError, StorageFailureError: It is not open.
        """
        engine = cls(path, access, durability, lock, notes)
        engine._locked.lock.reachable_at(endpoint)
        try:
            if access == "write" and lock == "hold":
                await engine._locked.lock.acquire("hold")
                await engine._locked.own(progress)
            else:
                await engine._shown.look_at(progress)
        except BaseException:
            await engine.aclose()
            raise
        return engine

    async def adapt(
        self,
        *,
        durability: Durability,
        lock: LockMode,
        notes: Notes | None,
        progress: Progress | None = None,
        endpoint: Endpoint | None = None,
    ) -> None:
        """Serve one more user: hold the lock if it asks for it, take its notes if there are none, sync if it does. Without
        the lock others may have written meanwhile: an engine that joins sees what is on disk now."""
        if durability == "disk":
            self._locked.durability = durability
        if notes is not None:
            self._shown.take_notes(notes)
        if lock == "hold" and self.access == "write" and self._locked.lock_mode != "hold":
            self._locked.lock.reachable_at(endpoint)
            await self._locked.run(lambda: self._locked.hold(progress))
        if self._locked.lock_mode == "per-write":
            await self._look()

    async def let_go(self) -> None:
        await self._locked.run(self._locked.let_go)

    @property
    def view(self) -> StoredLog:
        return self._shown.log

    @property
    def head(self) -> str:
        # Not by `self.state`: each request asks for it.
        return self._shown.head_at(self._shown.log.state)

    def head_at(self, state: LogState) -> str:
        return self._shown.head_at(state)

    @property
    def recovery(self) -> Recovery:
        return replace(self._shown.recovery, lost=self._shown.lost, modified=self.externally_modified)

    @property
    def externally_modified(self) -> bool:
        """True if a program that takes no lock has changed the log since the last check (G5)."""
        return self._locked.modified if self._locked.busy else self._locked.look()

    async def refresh(self) -> bool:
        return await self._shown.refresh()

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        return self._watch.add(callback)

    async def catch_up(self) -> None:
        await self._watch.now()

    async def validate_in_background(self, progress: Progress | None = None) -> list[Damage]:
        checked, self._shown.just_checked = self._shown.just_checked, False
        return [] if checked else await self.validate(progress)

    async def validate(self, progress: Progress | None = None) -> list[Damage]:
        """Check the whole log now; it can be used meanwhile. Ends early if cancelled, or when the log is closed."""
        found = await self._shown.check(progress)
        if found is None:
            return []
        adopt = partial(self._shown.adopt, found)
        at_once = self.access == "read" or self._shown.closed
        damage, changed = await (adopt() if at_once else self._locked.run(adopt))
        if changed:
            self._watch.tell()
        return damage

    async def _look(self) -> bool:
        """Check for changes on behalf of a watcher; True if something has changed."""
        if self.access == "write" and self._locked.lock_mode == "hold":
            before, self._change_told = self._change_told, self.externally_modified
            return self._change_told and not before
        return not self._locked.busy and await self._shown.refresh_if_changed()

    def timelines(self, view: LogReader | None = None) -> list[Timeline]:
        return self._shown.timelines.listed(view.file if isinstance(view, StoredLog) else None)

    def timeline(self, timeline_id: str) -> StoredLog:
        return self._shown.timelines.reader(timeline_id)

    def remove_timeline(self, timeline_id: str) -> None:
        if self.access == "read":
            self._check_writable()
        self._shown.timelines.remove(timeline_id)  # also by work that was accepted before the log was closed

    async def add(self, records: Sequence[NewRecord]) -> Appended:
        return await self._locked.add(records)

    def submit(self, append: AppendStep) -> None:
        self._check_writable()
        self._locked.submit(append)

    async def at_turn(self, read: Callable[[], T], *, latest: bool = True) -> T:
        if self.access != "read" and (self._shown.closed or not self._locked.idle):
            self._check_writable()
            await self._locked.run(partial(asyncio.sleep, 0))
        return read()

    async def run(self, job: Callable[[LogState], Awaitable[T]], *, rewrites: bool = False) -> T:
        self._check_writable()
        return await self._locked.run(partial(self._locked.begin, job, rewrites))

    async def rewrite(self, steps: Callable[[], T]) -> T:
        return await self._locked.rewrite(steps)

    def draft(self, replacement: Replacement) -> AbstractContextManager[Drafted]:
        return self._locked.draft(replacement)

    def commit(self, drafted: Drafted) -> Replaced:
        return self._locked.put_in_place(drafted)

    async def revise(self, edit: Edit, timeline_id: str | None = None) -> int:
        self._check_writable()
        return await self._locked.revise(edit, timeline_id)

    async def reload(self) -> Recovery:
        await (self.refresh() if self.access == "read" else self._locked.run(self._locked.reload))
        return self.recovery

    async def aclose(self) -> None:
        if self._closing is None:
            self._shown.closed = True
            self._watch.close()
            self._closing = asyncio.get_running_loop().create_task(self._let_all_go())
        await asyncio.shield(self._closing)

    async def _let_all_go(self) -> None:
        await self._locked.finished()
        self._locked.lock.release()
        self._shown.thread.end()
        self._shown.log.close()

    def _check_writable(self) -> None:
        if self._shown.closed or self.access == "read":
            raise ReadOnlyError("the log is closed" if self.access != "read" else "the session is open to be read only")
