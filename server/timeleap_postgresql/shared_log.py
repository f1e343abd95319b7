"""The `postgresql` engine: the `jsonl` engine on a working copy, whose changes count once the database has them.

Reading is that of the `jsonl` engine, once the database has said that the working copy is up to date. What changes the
log takes its turn in this process's queue, and then in the database. What waits to be appended is sent as one change,
which is refused if another process was quicker: then it is planned anew. Everything else holds the session locked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from msgspec import json, structs

from timeleap.errors import ExternallyModifiedError, SessionNotFoundError, StorageFailureError
from timeleap.storage import durable
from timeleap.storage.appending import GroupWriter, WriteGroup, plan_all
from timeleap.storage.engine import Drafted
from timeleap.storage.jsonl import Follower, JsonlEngine, LockedLog
from timeleap.storage.log_notes import Notes
from timeleap.storage.log_values import Appended, AppendStep, LogState, Progress, Replacement
from timeleap_postgresql.approval_rows import ApprovalRows
from timeleap_postgresql.freshness import Staleness, staleness
from timeleap_postgresql.working_copy import WorkingCopy

T = TypeVar("T")


Told = Callable[[str, LogState, LogState], Sequence[object]]
"""Events of a step for listeners, made from the head after it and the states around it."""
LOSSES: Final = 3
"""So often in a row another process may be quicker, before an append locks the session."""
Own = Callable[..., Awaitable[None]]
MAX_TOLD: Final = 256 << 10
"""Bytes of what is announced of a change; of a larger one others hear only that it was made."""


class Announcing:
    """Events of the steps under way, for listeners and other processes; and announcements of those.

    Attributes:
        forgets: Nothing is kept of what was announced before the step under way.
        gone: Another process has deleted the session.
        gone_by: Why, as JSON, where that is known.
        approvals: What the database has of its approvals.
        once_committed: Adds what is called on the event loop when the step under way is committed.
    """

    def __init__(self, shown: Follower, approvals: ApprovalRows) -> None:
        self._shown = shown
        self.approvals = approvals
        self._then: list[Callable[[], None]] = []
        self.once_committed = self._then.append
        self._told: list[Told] = []
        self._heard: list[bytes] | None = []
        self.tell = self._told.append
        self.forgets = self.gone = False
        self.gone_by: bytes | None = None

    def clear(self) -> None:
        """Another step begins."""
        self._told.clear()
        self._then.clear()
        self.forgets = False

    def committed(self) -> None:
        """The step under way is committed."""
        for then in self._then:
            then()

    def forget(self) -> None:
        """Keep nothing of what was announced before the step under way."""
        self.forgets = True

    def hear(self, announced: list[bytes] | None) -> None:
        """Changes of others were taken over; None: not all is known of them."""
        self._heard = announced

    def heard(self) -> list[bytes] | None:
        """Announcements of the changes that were taken over since the last call; None: not all are known."""
        heard, self._heard = self._heard, []
        return heard

    def of(
        self, spans: Sequence[tuple[LogState, LogState]] | None = None, before: LogState | None = None
    ) -> bytes | None:
        """Events of steps with the states around them, or of all from a state to the present one, as JSON; None where not
        all steps announced themselves."""
        told = self._told
        if spans is None:
            spans = [(before or LogState(), self._shown.log.state)] * len(told)
        if len(told) != len(spans):
            return None
        steps = zip(told, spans, strict=True)
        found = [event for tell, (first, after) in steps for event in tell(self._shown.head_at(after), first, after)]
        data = json.encode(found)
        return data if len(data) <= MAX_TOLD else None


class Comparing:
    """Brings what is shown of a log up to what the database has.

    Attributes:
        asked: Reads, up to now.
        compared: How many of them were asked for before the last look at the database.
    """

    def __init__(
        self, shown: Follower, copy: WorkingCopy, events: Announcing, own: Own, taken_over: Callable[[], None]
    ) -> None:
        self.asked = self.compared = 0
        self._shown, self._copy, self._events, self._own, self._taken_over = shown, copy, events, own, taken_over

    async def bring(self, bring: Callable[[], bool]) -> None:
        """Take over what `bring`, which is of the working copy, has changed there."""
        version, doubtful = self._copy.version, self._copy.doubtful
        try:
            changed = await self._shown.in_thread(bring)
            # It may have had to be done twice, when the second time found nothing left to do.
            if changed or (self._copy.version, self._copy.doubtful) != (version, doubtful):
                self._shown.notes.refresh()
                await self._own(trust_index=not doubtful)
                self._events.hear(self._copy.heard)
                self._taken_over()
        except BaseException:
            if (self._copy.version, self._copy.doubtful) != (version, doubtful):
                self._copy.forget()  # nothing may be planned on what is shown: the database has more
            raise

    async def catch_up(self, mark: Staleness | None = None) -> None:
        """Show what the database has now; with `mark`, or a standby (see `Database.read`)."""
        await self.bring(partial(self._copy.catch_up, mark))

    def reading(self, read: Callable[[], T], *, latest: bool) -> Callable[[], Awaitable[T]]:
        """The job that reads what the database has at its turn or (not `latest`) what is shown then. One look at the
        database is enough for all reads that were asked for before it."""
        self.asked += latest
        number, mark = self.asked if latest else 0, staleness()

        async def job() -> T:
            if number > self.compared:
                asked = self.asked
                if not await self._shown.in_thread(self._copy.is_current, mark):
                    await self.catch_up(mark)
                if mark is None or not mark.found:
                    self.compared = asked
            return read()

        return job

    async def reach(self, version: int | None) -> None:
        """Show at least a version (None: what the database has now)."""
        if version is None or self._copy.version < version or self._copy.uncertain:
            try:
                await self.catch_up()
            except SessionNotFoundError:
                with suppress(StorageFailureError):
                    self._events.gone_by = await self._shown.in_thread(self._copy.reading.cause_of_end)
                raise


class SharedLog(LockedLog):
    """The end of a log that other processes write to, too, and the queue of what this one changes of it."""

    def __init__(self, shown: Follower, copy: WorkingCopy, taken_over: Callable[[], None]) -> None:
        """`taken_over`: called on the event loop when what is shown has become another."""
        super().__init__(shown, "os", "hold")  # the disk of the database is what lasts
        self.copy, self.events = copy, Announcing(shown, copy.approvals)
        self.comparing = Comparing(shown, copy, self.events, self.own, taken_over)
        self._locking = False  # the session is locked for the step under way

    def immediate(self) -> bool:
        return False

    def look(self) -> bool:
        return False  # what others commit is taken over

    async def let_go(self) -> None:
        return

    async def leave(self) -> None:
        if self._locking:
            self._locking = False
            await self._shown.in_thread(self.copy.end)

    async def _lock(self) -> None:
        self._locking = True
        self.copy.approvals.begin()
        await self.comparing.bring(self.copy.begin)

    # Appends

    async def _commit(self, steps: list[AppendStep]) -> None:
        """Append together, planned on what the database has: again where another process was quicker."""
        losses, again = 0, True
        while True:
            if self.copy.uncertain or (losses == LOSSES and not self._locking):
                await self._lock()
            self.events.clear()  # what is planned announces itself
            group, asked = self.group(), self.comparing.asked
            planned, refused = plan_all(steps, group, self._waiting)
            steps = [step for step in steps if step in planned or step in refused]
            try:
                if await self._send(group, self.events.of(group.spans)):
                    break
            except StorageFailureError as error:
                if again and error.unchanged:  # at its turn still
                    again = False
                    await (self._lock() if self._locking else self.comparing.catch_up())
                    continue
                if len(steps) == 1 or error.retryable:
                    raise
                await self._commit_each(steps)
                return
            losses += 1
            await self.comparing.catch_up()
        self.comparing.compared = asked
        for step, (before, after) in zip(planned, group.spans, strict=True):
            step.end(Appended(before, after, self._shown.head_at(after)), None)
        for step, refusal in refused.items():
            step.end(None, refusal)

    async def _commit_each(self, steps: list[AppendStep]) -> None:
        """Append one by one: one that the database refuses must not take its neighbours along."""
        for step in steps:
            try:
                await self._commit([step])
            except Exception as error:
                step.end(None, error)

    async def _send(self, group: WriteGroup, events: bytes | None) -> bool:
        """Commit a group, or only compare an empty one; False: the database has not what it was planned on."""
        if group.empty:
            return self._locking or await self._shown.in_thread(self.copy.is_current)
        if not await _sent(self._shown, self.copy, group, events, at_once=not self._locking):
            return False
        keep = partial(_keep, self._shown, self.copy, self._writer, group)
        try:
            keep() if self._writer.quick else await self._shown.in_thread(keep)
        except (StorageFailureError, ExternallyModifiedError):
            self.copy.forget()  # it is made, and shown once the working copy can be written
        return True

    @contextmanager
    def draft(self, replacement: Replacement) -> Iterator[Drafted]:
        share = None if self.copy.differs(logs_only=True) else self.copy.parts.begin_as
        with super().draft(structs.replace(replacement, borrow=share)) as new:
            yield new

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do `work` alone at its turn; when this returns, what it did to the session is committed. Where the connection
        was lost and nothing was changed, it is done again, once, at the same turn: nothing that waits overtakes it."""

        async def whole() -> T:
            try:
                return await self._done_locked(work)
            except StorageFailureError as error:
                if not error.unchanged:
                    raise
            return await self._done_locked(work)

        return await super().run(whole)

    async def _done_locked(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do `work` while nobody else changes the session, and commit it."""
        await self._lock()
        self._shown.timelines.beginning, before = None, self._shown.log.state
        self.events.clear()
        try:
            result = await work()
            await self._shown.in_thread(self._commit_all, self.events.of(before=before))
            self.events.committed()
        except BaseException:
            if self.copy.doubtful or await self._shown.in_thread(self.copy.differs):
                await self._put_back()
            raise
        return result

    async def run_unlocked(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run work that changes nothing, without the lock."""
        return await super().run(work)

    def _commit_all(self, events: bytes | None) -> None:
        shown = self._shown
        self.copy.commit(shown.log.state, events, begins=shown.timelines.beginning, forget=self.events.forgets)

    async def _put_back(self) -> None:
        """Make the working copy again, as what was done to it does not count. In doubt it is not read."""
        self.copy.forget()
        with suppress(StorageFailureError):
            await self.comparing.bring(self.copy.begin)


async def _sent(shown: Follower, copy: WorkingCopy, group: WriteGroup, events: bytes | None, *, at_once: bool) -> bool:
    """Commit an append, here or in the log's thread. To plan an append takes less long than the way to the log's thread and back: that is
    gone where something but the answer has to be waited for, or (not `at_once`) in any case, or that takes long."""
    asked = copy.begin_append(group.data, group.after, events, at_once=True) if at_once else None
    if asked is None:
        return await shown.in_thread(copy.commit_append, group.data, group.after, events)
    return copy.end_append() if await asked.answered() else await shown.in_thread(copy.end_append)


def _keep(shown: Follower, copy: WorkingCopy, writer: GroupWriter, group: WriteGroup) -> None:
    """Write what the database has to the working copy."""
    with durable.storage_errors("write the working copy", copy.directory):
        shown.wrote(writer.timed(shown.log, group, "os").log)
        copy.appended()


class PostgresEngine(JsonlEngine):
    """A log in a database, shown from a working copy."""

    def __init__(self, path: Path, copy: WorkingCopy, notes: Notes | None, closed: Callable[[], None]) -> None:
        super().__init__(path, "write", "os", "hold", notes)
        self.copy = copy
        self._closed = closed
        self._locked = self._shared = SharedLog(self._shown, copy, self._watch.tell)
        self.events = self._shared.events

    def end(self) -> None:
        """The session was deleted by another process: call back those who watch."""
        self.events.gone = True
        self._watch.tell()

    async def aclose(self) -> None:
        await super().aclose()
        self._closed()

    async def at_turn(self, read: Callable[[], T], *, latest: bool = True) -> T:
        return await self._shared.run_unlocked(self._shared.comparing.reading(read, latest=latest))

    async def take_over(self, version: int | None) -> None:
        """Show what the database has, at least up to a version; None: whatever it has by now."""
        await self._shared.run_unlocked(lambda: self._shared.comparing.reach(version))

    async def catch_up(self) -> None:
        await _agree(self._shared)


async def _agree(shared: SharedLog) -> None:
    """Show what the database has, and commit what only the working copy has: with the next change, where a standby
    answers."""
    mark = staleness()
    if mark is not None:
        await shared.run_unlocked(shared.comparing.reading(lambda: None, latest=True))
        if mark.found:
            return
    await shared.run(_nothing)


async def _nothing() -> None:
    return


async def open_copy(
    path: Path,
    copy: WorkingCopy,
    notes: Notes | None = None,
    progress: Progress | None = None,
    *,
    closed: Callable[[], None] = lambda: None,
) -> PostgresEngine:
    """Open the log at `path`, of a working copy; `closed` is called when it is closed. Raises SessionLockedError,
    StorageFailureError."""
    engine = PostgresEngine(path, copy, notes, closed)
    try:
        await engine._locked.lock.acquire("hold")
        await engine._locked.own(progress)
        await engine.catch_up()
    except BaseException:
        await engine.aclose()
        raise
    return engine
