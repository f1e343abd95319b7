"""The `jsonl` engine: a log in a file with one JSON record a line, its index beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from timeleap.errors import ExternallyModifiedError
from timeleap.storage import appending, opening, rewrite, scrub
from timeleap.storage.appending import UnwritableError, Written
from timeleap.storage.engine import (
    Access,
    Appended,
    Durability,
    Edit,
    LogState,
    Notes,
    Progress,
    Recovery,
    Replaced,
    Replacement,
)
from timeleap.storage.follower import Follower
from timeleap.storage.lock import Endpoint, LockMode, SessionLock
from timeleap.storage.timelines import Timelines
from timeleap.storage.writer import Group, Writer, group_on


class JsonlEngine(Follower):
    """One log in a file, opened for writing or to be read.

    With lock mode `hold` the lock is held from `open` to `aclose`; with `per-write` it is taken for each group of
    writes, and what others wrote in between is taken over first. A log opened to be read takes no lock and writes
    nothing at all; it shows what its writer does while somebody watches it, or after `refresh`.
    """

    def __init__(self, path: Path, access: Access, durability: Durability, lock: LockMode, notes: Notes | None) -> None:
        """Use `open`."""
        super().__init__(path, access, notes)
        self.durability: Durability = durability
        self.lock_mode: LockMode = lock
        self._lock = SessionLock(self.path)
        self._writer = Writer(_JsonlTarget(self))
        self._modified = False
        self._refusal: UnwritableError | None = None
        self._closing: asyncio.Task[None] | None = None

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
                engine._show(await engine._in_thread(opening.looked_at, engine.path, progress))
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

        Without the lock others may have written meanwhile: an engine that joins sees what is on disk now.
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
        try:
            self._lock.announce("hold")
            await self._own(progress)
        except BaseException:
            self.lock_mode = "per-write"  # nobody has it held: it is released at the end of this turn
            raise

    async def _free_lock(self) -> None:
        self.lock_mode = "per-write"
        self._modified = False

    async def _own(self, progress: Progress | None = None, *, trust_index: bool = True) -> None:
        """Open the log for appending; we have the lock."""
        found = await self._in_thread(opening.recovered, self.path, self.lock_mode == "hold", progress, trust_index)
        earlier = self._recovery
        self._show(found)
        self._owned = True
        self._recovery = replace(
            found.recovery,
            quarantined=(*earlier.quarantined, *found.recovery.quarantined),
            cut_bytes=earlier.cut_bytes + found.recovery.cut_bytes,
        )

    # State beside the log

    @property
    def externally_modified(self) -> bool:
        """True if a program that takes no lock has changed the log."""
        if self._owned and self._lock.held and not self._modified and not self._writer.busy:
            self._modified = not appending.untouched(self._log)
        return self._modified

    def remove_timeline(self, timeline_id: str) -> None:
        """Delete a timeline for good; its number is not used again."""
        self._check_writable()
        self._timelines.remove(timeline_id)

    # Changing

    async def revise(self, edit: Edit, timeline_id: str | None = None) -> int:
        """Rewrite the live log or a timeline, keeping nothing of what it was."""
        self._check_writable()
        self._check_unmodified()
        if timeline_id is not None:
            changed = await self._in_thread(scrub.revise_closed, self._timelines.path(timeline_id), edit)
            if changed:
                await self._in_thread(self._notes.bump_epoch)
            return changed
        try:
            log, changed = await self._in_thread(scrub.revise_live, self._log, edit, self._notes.bump_epoch)
        except (ExternallyModifiedError, UnwritableError) as error:
            self._note(error)
            raise
        self._log, self._seen = log, log.state.length
        return changed

    async def reload(self) -> Recovery:
        """Take over what is on disk now, as it is; the head changes."""
        if self.access == "read":
            await self.refresh()
            return self._recovery
        return await self._writer.run(self._reload)

    async def aclose(self) -> None:
        """Finish what was accepted, then release lock and descriptors. Idempotent; who cancels it only stops waiting."""
        if self._closing is None:
            self._closed = True
            self._watch.close()
            self._closing = asyncio.get_running_loop().create_task(self._let_all_go())
        await asyncio.shield(self._closing)

    async def _let_all_go(self) -> None:
        await self._writer.finished()
        self._lock.release()
        self._thread.end()

    async def _replace(self, plan: Callable[[LogState], Replacement]) -> Replaced:
        self._check_unmodified()
        before = self._log.state
        replacement = plan(before)
        lowest = max(self._generation, self._notes.rotation, self._notes.noted) + 1
        try:
            done = await self._in_thread(
                rewrite.replace_trusting_index, self._log, replacement, self._timelines, lowest
            )
        except UnwritableError as error:
            self._refusal = error
            raise
        self._log = done.log
        self._seen = done.log.state.length
        self._generation = max(self._generation, done.number)
        if self._own_notes is not None and done.timeline_id:
            self._own_notes.note(done.timeline_id, replacement.facts)
        return Replaced(before, done.log.state, done.timeline_id, self.head)

    async def _reload(self) -> Recovery:
        found = await self._in_thread(opening.recovered, self.path, self.lock_mode == "hold", None, False)
        await self._in_thread(self._notes.bump_epoch)
        self._refusal, self._modified = None, False
        self._show(found)
        self._owned = True
        return self._recovery

    async def _commit(self, group: Group) -> list[Appended]:
        if self.durability == "os" or group.empty:
            return self._commit_now(group)
        self._check_unmodified()
        try:
            written = await self._in_thread(appending.write_group, self._log, group, self.durability)
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
                await self._own(trust_index=self._believable)
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
        return await super()._look()


class _JsonlTarget:
    """The engine as the target of its writer."""

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
