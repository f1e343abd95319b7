"""The actor: everything that changes a log waits here, and takes effect one after the other.

Appends that wait together are planned one on top of the other and written as one group: one write, one sync. If a
group of several fails, each is tried alone, so that a record too big for the disk does not take its neighbours along.

No task outlives the work: the queue is drained by a task that ends with it. So an engine is not tied to one event
loop, and programs that never close one leave nothing behind.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Thread
from typing import Any, Final, Protocol, TypeVar, TypeVarTuple
from zlib import crc32

from timeleap import clock
from timeleap.errors import StorageFailureError
from timeleap.storage.engine import Appended, LogState, NewRecord
from timeleap.storage.reader import StoredLog
from timeleap.storage.record import batch_member
from timeleap.storage.scan import entry_of

# Work that must not be interrupted: its waiter can be cancelled, the work cannot

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Outcome(asyncio.Future[T]):
    """The result to come of a piece of work.

    A cancellation that comes before the work was taken up stops it. A later one is put aside: the waiter gets the
    result all the same.

    Attributes:
        taken: The work was taken up.
        unwanted: Somebody asked to stop it after that.
    """

    def __init__(self, *, taken: bool = False) -> None:
        super().__init__(loop=asyncio.get_running_loop())
        self.taken = taken
        self.unwanted = False

    def cancel(self, msg: Any | None = None) -> bool:
        """Stop the work if it was not taken up; says whether it was stopped."""
        if self.taken:
            self.unwanted = True
            return False
        return super().cancel(msg)

    async def result_uncancelled(self) -> T:
        """Wait for it."""
        try:
            return await self
        except asyncio.CancelledError:
            if self.cancelled() or not self.done():
                raise
            return self.result()

    def fail(self, error: BaseException) -> None:
        """The work failed, or (an error that is no Exception) the event loop ends. Nothing if it is done."""
        if self.done():
            return
        if isinstance(error, Exception):
            self.set_exception(error)
        else:
            super().cancel()


# Blocking work in a thread of its own, so that a slow disk holds up nobody else

_Jobs = SimpleQueue[Callable[[], None] | None]


class LogThread:
    """The thread in which the work on one log is done, in order. It is started when it is needed, and ends when this
    object is ended or gone.

    A `ThreadPoolExecutor` does the same with twice the locks, and what an append costs is little more than the way to
    its thread and back.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: _Jobs | None = None

    def __del__(self) -> None:
        self.end()

    def begin(self, work: Callable[[*Ts], T], *args: *Ts) -> Outcome[T]:
        """Let the thread do `work`."""
        if self._jobs is None:
            jobs: _Jobs = SimpleQueue()
            # A daemon: a log that nobody closed must not keep the program from ending.
            Thread(target=_serve, args=(jobs,), name=self._name, daemon=True).start()
            self._jobs = jobs
        outcome: Outcome[T] = Outcome(taken=True)
        self._jobs.put(lambda: _do(outcome, work, *args))
        return outcome

    async def do(self, work: Callable[[*Ts], T], *args: *Ts) -> T:
        """Do blocking work in the thread; never torn: a cancellation is put aside."""
        return await self.begin(work, *args).result_uncancelled()

    def end(self) -> None:
        """Let the thread go when it has done what it was given. Idempotent."""
        jobs, self._jobs = self._jobs, None
        if jobs is not None:
            jobs.put(None)


def _serve(jobs: _Jobs) -> None:
    while (job := jobs.get()) is not None:
        job()
        del job  # or it would keep the log alive until the next one


def _do(outcome: Outcome[T], work: Callable[[*Ts], T], *args: *Ts) -> None:
    tell = outcome.get_loop().call_soon_threadsafe
    with suppress(RuntimeError):  # the loop was closed: nobody waits any more
        try:
            result = work(*args)
        except BaseException as error:
            tell(outcome.fail, error)
        else:
            tell(_succeed, outcome, result)


def _succeed(outcome: Outcome[T], result: T) -> None:
    if not outcome.done():
        outcome.set_result(result)


# The queue

Plan = Callable[[LogState], Sequence[NewRecord]]

GROUP_LIMIT: Final = 1024
GROUP_BYTES: Final = 16 << 20


@dataclass(slots=True)
class WriteGroup:
    """Planned appends that are written together.

    Attributes:
        before: The state they build on.
        after: The state when they are written.
        data: What to write.
        first_line: The line of the first of `entries`.
        entries: The index entries of the new lines.
        spans: By append: the states around its own records.
    """

    before: LogState
    after: LogState
    first_line: int
    data: bytearray = field(default_factory=bytearray)
    entries: bytearray = field(default_factory=bytearray)
    spans: list[tuple[LogState, LogState]] = field(default_factory=list)

    @property
    def empty(self) -> bool:
        """True if there is nothing to write."""
        return self.after is self.before

    def add(self, records: Sequence[NewRecord]) -> None:
        """Add the records of one append."""
        state = self.after
        for record in records:
            line = record.body + b"\n"
            entry, state = entry_of(record, state, crc32(line), len(line))
            self.data += line
            self.entries += entry
        self.spans.append((self.after, state))
        self.after = state


def group_on(log: StoredLog) -> WriteGroup:
    """An empty group on a log. If its last line has no line feed, the group begins with it: so nothing can be glued to
    a record that came without one."""
    if not log.open_ended:
        return WriteGroup(log.state, log.state, log.state.lines)
    last = log.store.entry(log.state.lines - 1)
    record = NewRecord(b"", last.kind, last.role, last.value, last.flags)
    entry, state = entry_of(record, log.store.state(last.line), crc32(b"\n", last.crc), last.length + 1)
    return WriteGroup(state, state, last.line, bytearray(b"\n"), bytearray(entry))


class CommitTarget(Protocol):
    """Target of the writes of a writer."""

    def immediate(self) -> bool:
        """True if a group can be written at once, without waiting for anything."""
        ...

    def commit_now(self, group: WriteGroup) -> list[Appended]:
        """Like `commit`, where `immediate`."""
        ...

    async def enter(self) -> None:
        """Make ready for a write; what it raises goes to all who wait for it."""
        ...

    async def leave(self) -> None:
        """The write is over."""
        ...

    def group(self) -> WriteGroup:
        """An empty group on the present state."""
        ...

    async def commit(self, group: WriteGroup) -> list[Appended]:
        """Write a group, as durable as was asked for, and make its state the present one; or change nothing.

        Raises:
            ExternallyModifiedError, StorageFailureError: Nothing was written.
        """
        ...


class _Append(Outcome[Appended]):
    def __init__(self, plan: Plan, mark: bool) -> None:
        super().__init__()
        self.plan, self.mark = plan, mark


class _Job(Outcome[Any]):
    def __init__(self, work: Callable[[], Awaitable[Any]]) -> None:
        super().__init__()
        self.work = work


class WriteQueue:
    """The queue of one log."""

    def __init__(self, medium: CommitTarget) -> None:
        self._medium = medium
        self._waiting: deque[_Append | _Job] = deque()
        self._task: asyncio.Task[None] | None = None

    @property
    def busy(self) -> bool:
        """True if anything is waiting or being done."""
        return self._task is not None

    async def append(self, plan: Plan, *, mark: bool) -> Appended:
        """Append at its turn. Cancelled while it waits it does nothing; later it is finished, and its result returned."""
        if self._task is None and not self._waiting and self._medium.immediate():
            group = self._medium.group()
            group.add(marked(plan(group.after), mark=mark))
            return self._medium.commit_now(group)[0]
        result: Appended = await self._submit(_Append(plan, mark))
        return result

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do `work` alone at its turn. Cancelled while it waits it is not started; later it is finished."""
        result: T = await self._submit(_Job(work))
        return result

    async def finished(self) -> None:
        """Return when everything accepted so far is done."""
        while (task := self._task) is not None:
            await asyncio.wait([task])

    async def _submit(self, step: _Append | _Job) -> Any:
        self._waiting.append(step)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._drain())
        return await step.result_uncancelled()

    async def _drain(self) -> None:
        try:
            while self._waiting:
                step = self._waiting.popleft()
                if isinstance(step, _Append):
                    steps = [step]
                    while self._waiting and len(steps) < GROUP_LIMIT and isinstance(self._waiting[0], _Append):
                        follower = self._waiting.popleft()
                        assert isinstance(follower, _Append)
                        steps.append(follower)
                    await self._append_group(steps)
                else:
                    await self._do(step)
                    if self._waiting:
                        # Who waits for it goes on with the log as the job left it, before the next step changes that.
                        await asyncio.sleep(0)
        finally:
            self._task = None

    async def _append_group(self, steps: list[_Append]) -> None:
        steps = [step for step in steps if not step.done()]
        if not steps:
            return
        try:
            await self._medium.enter()
            try:
                await self._commit([step for step in steps if not step.done()])
            finally:
                await self._medium.leave()
        except BaseException as error:
            for step in steps:
                if step not in self._waiting:
                    step.fail(error)
            if not isinstance(error, Exception):
                raise

    async def _commit(self, steps: list[_Append]) -> None:
        group = self._medium.group()
        planned, refused = self._plan(steps, group)
        try:
            results = await self._medium.commit(group) if planned else []
        except Exception as error:
            if isinstance(error, StorageFailureError) and len(planned) > 1:
                again = [step for step in steps if step in planned or step in refused]
            else:
                for step in planned:
                    step.fail(error)
                again = list(refused)  # they were refused in the light of what is not written after all
            for step in again:
                await self._commit([step])
        else:
            for step, result in zip(planned, results, strict=True):
                step.set_result(result)
            for step, refusal in refused.items():
                step.fail(refusal)

    def _plan(self, steps: list[_Append], group: WriteGroup) -> tuple[list[_Append], dict[_Append, Exception]]:
        """Add the appends to the group, those that do not fit go back into the queue.

        Returns:
            Those that were added, and why others were not: nobody is to hear of that before what it refers to is written.
        """
        planned: list[_Append] = []
        refused: dict[_Append, Exception] = {}
        for at, step in enumerate(steps):
            if len(group.data) >= GROUP_BYTES:
                self._waiting.extendleft(reversed(steps[at:]))
                break
            step.taken = True
            try:
                group.add(marked(step.plan(group.after), mark=step.mark))
            except Exception as error:
                refused[step] = error
            else:
                planned.append(step)
        return planned, refused

    async def _do(self, job: _Job) -> None:
        if job.done():
            return
        try:
            await self._medium.enter()
            try:
                if not job.done():
                    job.taken = True
                    job.set_result(await job.work())
            finally:
                await self._medium.leave()
        except BaseException as error:
            job.fail(error)
            if not isinstance(error, Exception):
                raise


def marked(records: Sequence[NewRecord], *, mark: bool) -> Sequence[NewRecord]:
    """The records of one append; several are marked as one batch."""
    if len(records) < 2 or not mark:
        return records
    batch_id = clock.new_uid(12)
    return [batch_member(record, batch_id, at, len(records)) for at, record in enumerate(records)]
