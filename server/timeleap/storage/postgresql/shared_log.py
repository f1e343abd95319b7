"""The `postgresql` engine: the `jsonl` engine on a working copy, whose changes count once the database has them.

Reading is that of the `jsonl` engine. What changes the log takes its turn twice: in this process's queue, and behind
the lock of the session's row, where the working copy is brought up to date before anything is planned.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from timeleap.errors import StorageFailureError
from timeleap.storage.appending import WriteGroup
from timeleap.storage.engine import Appended, First, LogState, Notes, Progress, Replaced, Replacement
from timeleap.storage.jsonl import Follower, JsonlEngine, LockedLog
from timeleap.storage.postgresql.working_copy import WorkingCopy

T = TypeVar("T")


class SharedLog(LockedLog):
    """The end of a log that other processes write to, too, and the queue of what this one changes of it."""

    def __init__(self, shown: Follower, copy: WorkingCopy, taken_over: Callable[[], None]) -> None:
        """`taken_over`: called on the event loop when what is shown has become another."""
        super().__init__(shown, "os", "hold")  # the disk of the database is what lasts
        self.copy = copy
        self.compared = False  # both sides were compared since the log was opened
        self._taken_over = taken_over
        self._origin: str | None = None

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
        await self.own(trust_index=trust_index)
        self._taken_over()

    async def commit(self, group: WriteGroup) -> list[Appended]:
        self.check_unmodified()
        shown = self._shown
        if not group.empty:
            await shown.in_thread(self.copy.commit_append, group.data, group.after)
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
            self._origin = None
            try:
                result = await work()
                await self._shown.in_thread(self._commit_all)
            except BaseException:
                if self.copy.doubtful or await self._shown.in_thread(self.copy.differs):
                    await self._put_back()
                raise
            self.compared = True
            return result

        return await super().run(whole)

    def _commit_all(self) -> None:
        self.copy.commit(self._shown.log.state, origin=self._origin)

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
        self._locked = SharedLog(self._shown, copy, self._watch.tell)

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
