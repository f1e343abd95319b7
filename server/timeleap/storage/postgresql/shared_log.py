"""The `postgresql` engine: the `jsonl` engine on a working copy, whose changes count once the database has them.

Reading is that of the `jsonl` engine. What changes the log takes its turn twice: in this process's queue, and behind
the lock of the session's row, where the working copy is brought up to date before anything is planned.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from msgspec import json

from timeleap.errors import StorageFailureError
from timeleap.storage.appending import WriteGroup
from timeleap.storage.engine import Appended, First, LogState, Notes, Progress, Replaced, Replacement
from timeleap.storage.jsonl import Follower, JsonlEngine, LockedLog
from timeleap.storage.postgresql.working_copy import WorkingCopy

T = TypeVar("T")


Told = Callable[[str, LogState, LogState], Sequence[object]]
"""What listeners are told of a step, by the head after it and the states around it."""
MAX_TOLD: Final = 64 << 10
"""Bytes of what is announced of a change; of a larger one others hear only that it was made."""


class SharedLog(LockedLog):
    """The end of a log that other processes write to, too, and the queue of what this one changes of it."""

    def __init__(self, shown: Follower, copy: WorkingCopy, taken_over: Callable[[], None]) -> None:
        """`taken_over`: called on the event loop when what is shown has become another."""
        super().__init__(shown, "os", "hold")  # the disk of the database is what lasts
        self.copy = copy
        self.compared = False  # both sides were compared since the log was opened
        self.heard: list[bytes] | None = []
        self._announced: list[Told] = []
        self._taken_over = taken_over
        self._origin: str | None = None
        self.forgets = False  # the step under way leaves nothing of what was announced before it

    def immediate(self) -> bool:
        return False

    def look(self) -> bool:
        return False  # what others commit is taken over

    async def let_go(self) -> None:
        return

    @property
    def idle(self) -> bool:
        """False while what is shown may not be what the database has: then nothing is read before that is known."""
        return super().idle and self.compared and not self.copy.doubtful

    async def enter(self) -> None:
        doubtful = self.copy.doubtful
        if await self._shown.in_thread(self.copy.begin):
            await self._take_over(trust_index=not doubtful)

    async def leave(self) -> None:
        await self._shown.in_thread(self.copy.end)

    async def _take_over(self, *, trust_index: bool) -> None:
        self._shown.notes.refresh()
        self.heard = self.copy.heard
        await self.own(trust_index=trust_index)
        self._taken_over()

    def group(self) -> WriteGroup:
        self._announced.clear()  # what is planned on it announces itself
        return super().group()

    def announce(self, told: Told) -> None:
        self._announced.append(told)

    def _events(self, spans: Sequence[tuple[LogState, LogState]]) -> bytes | None:
        """What the other processes are told of steps, as JSON; None where not all of them announced themselves."""
        if len(self._announced) != len(spans):
            return None
        told = zip(self._announced, spans, strict=True)
        found = [event for tell, (before, after) in told for event in tell(self._shown.head_at(after), before, after)]
        data = json.encode(found)
        return data if len(data) <= MAX_TOLD else None

    async def commit(self, group: WriteGroup) -> list[Appended]:
        self.check_unmodified()
        shown = self._shown
        if not group.empty:
            await shown.in_thread(self.copy.commit_append, group.data, group.after, self._events(group.spans))
            try:
                shown.wrote((await shown.in_thread(self._write, group)).log)
                self.copy.appended()
            except StorageFailureError:
                self.copy.forget()  # it is made, and shown once the working copy can be written
        return [Appended(before, after, shown.head_at(after)) for before, after in group.spans]

    async def replace(self, plan: Callable[[LogState], Replacement], first: First | None) -> Replaced:
        def noting(state: LogState) -> Replacement:
            planned = plan(state)
            self._origin = planned.from_timeline and f"{planned.from_timeline}.jsonl"
            return planned

        return await super().replace(noting, first)

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do `work` alone at its turn; when this returns, what it did to the session is committed."""

        async def whole() -> T:
            self._origin, self.forgets, before = None, False, self._shown.log.state
            self._announced.clear()
            try:
                result = await work()
                events = self._events([(before, self._shown.log.state)] * len(self._announced))
                await self._shown.in_thread(self._commit_all, events)
            except BaseException:
                if self.copy.doubtful or await self._shown.in_thread(self.copy.differs):
                    await self._put_back()
                raise
            self.compared = True
            return result

        return await super().run(whole)

    def _commit_all(self, events: bytes | None) -> None:
        self.copy.commit(self._shown.log.state, events, origin=self._origin, forget=self.forgets)

    async def _put_back(self) -> None:
        """Make the working copy again: something was done to it that does not count. If the database does not answer, it
        stays in doubt, and is not read."""
        self.copy.forget()
        try:
            await self._shown.in_thread(self.copy.begin)
        except StorageFailureError:
            return
        await self._take_over(trust_index=False)


class PostgresEngine(JsonlEngine):
    """A log in a database, shown from a working copy."""

    def __init__(self, path: Path, copy: WorkingCopy, notes: Notes | None, closed: Callable[[], None]) -> None:
        super().__init__(path, "write", "os", "hold", notes)
        self.copy = copy
        self._closed = closed
        self._locked = self._shared = SharedLog(self._shown, copy, self._watch.tell)

    def announce(self, told: Told) -> None:
        """Say what the others are told of the step under way."""
        self._shared.announce(told)

    def forget(self) -> None:
        """Keep nothing of what was announced before the step under way."""
        self._shared.forgets = True

    def heard(self) -> list[bytes] | None:
        """What was announced of the changes that were taken over since this was asked last; None: not all is known."""
        heard, self._shared.heard = self._shared.heard, []
        return heard

    async def aclose(self) -> None:
        await super().aclose()
        self._closed()

    async def catch_up(self) -> None:
        async def nothing() -> None:
            return

        await self._locked.run(nothing)


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
