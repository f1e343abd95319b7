"""From an append to the disk: the queue of what changes a log, and the write and sync of what waits together.

Everything that changes a log waits in its queue, and takes effect one after the other. Appends that wait together are
planned one on top of the other and written as one group: one write, one sync. If a group of several fails, each is
tried alone, so that a record too big for the disk does not take its neighbours along.

The order of a write is: look whether the log is still as we left it; write; look whether our bytes are where we
believe; sync. On any error the log is cut back to where it was, so that neither half a record nor an unacknowledged one
is left behind. A sync that failed is never tried again: the system may have dropped the data and would report success.
The log is cut back, opened again and checked; if that cannot be done the log is not written to any more.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar, TypeVarTuple, cast

from msgspec import Struct

from timeleap import clock
from timeleap.errors import StorageFailureError
from timeleap.storage import durable
from timeleap.storage.durable import Identity, OpenFile, crc32, failpoint, stalling
from timeleap.storage.external_change import changed_log
from timeleap.storage.index import IndexDamagedError, first_difference
from timeleap.storage.load import extend, new_log
from timeleap.storage.log_values import Appended, AppendStep, Durability, LogState, NewRecord, Plan
from timeleap.storage.reader import StoredLog
from timeleap.storage.record import batch_member
from timeleap.storage.scan import entry_of
from timeleap.uncancelled_work import Outcome

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

GROUP_LIMIT: Final = 1024
GROUP_BYTES: Final = 16 << 20
_TAIL: Final = 4


class UnwritableError(StorageFailureError):
    """The end of the log could not be brought back to a known state; it can only be read."""

    retryable = False


class WriteGroup(Struct):
    """Planned appends that are written together."""

    before: LogState  # that it builds on
    after: LogState  # that it leads to
    first_line: int  # of `entries`
    lines: list[bytes] = []  # what to write
    packed: list[bytes] = []  # their index entries, from `first_line` on
    spans: list[tuple[LogState, LogState]] = []  # by append: around its own records

    @property
    def data(self) -> bytes:
        return b"".join(self.lines)

    @property
    def empty(self) -> bool:
        return self.after is self.before

    def add(self, records: Sequence[NewRecord], *, mark: bool = False) -> None:
        """Add records; several are one batch if they are to be marked (`mark`)."""
        if len(records) > 1 and mark:
            batch_id = clock.new_uid(12)
            records = [batch_member(record, batch_id, at, len(records)) for at, record in enumerate(records)]
        before = self.after
        for record in records:
            line = record.body + b"\n"
            entry, self.after = entry_of(record, self.after, crc32(line), len(line))
            self.lines.append(line)
            self.packed.append(entry)
        self.spans.append((before, self.after))


def group_on(log: StoredLog) -> WriteGroup:
    """An empty group on a log. If its last line has no line feed, the group begins with it: so nothing can be glued to
    a record that came without one."""
    if not log.open_ended:
        return WriteGroup(log.state, log.state, log.state.lines)
    last = log.store.entry(log.state.lines - 1)
    record = NewRecord(b"", last.kind, last.role, last.value, last.flags)
    entry, state = entry_of(record, log.store.state(last.line), crc32(b"\n", last.crc), last.length + 1)
    return WriteGroup(state, state, last.line, [b"\n"], [entry])


class _Job(Outcome[Any]):
    def __init__(self, work: Callable[[], Awaitable[Any]]) -> None:
        super().__init__()
        self.work = work


def _kind(step: _Step) -> object:
    """Appends of one kind, all waited for or all told, are written together; a job is done alone."""
    return step if isinstance(step, _Job) else type(step)


def _next_steps(waiting: deque[_Step]) -> list[_Step]:
    """Take the next step out of the queue, and those behind it that are written together with it."""
    leader, limit = waiting[0], GROUP_LIMIT
    if isinstance(leader, AppendStep) and len(waiting) <= limit and {*map(type, waiting)} == {type(leader)}:
        steps = [*waiting]  # a burst, as nearly all are
        waiting.clear()
        return steps
    steps, kind = [waiting.popleft()], _kind(leader)
    while waiting and _kind(waiting[0]) is kind and len(steps) < limit:
        steps.append(waiting.popleft())
    return steps


_Step = AppendStep | _Job


def plan_all(
    steps: list[AppendStep], group: WriteGroup, waiting: deque[_Step]
) -> tuple[list[AppendStep], dict[AppendStep, Exception]]:
    """Add appends to a group; those that do not fit go back to those that are `waiting`. Returns those that were added,
    and why others were not: nobody is to hear of that before what it refers to is written."""
    refused: dict[AppendStep, Exception] = {}
    full = group.before.length + GROUP_BYTES
    for at, step in enumerate(steps):
        if group.after.length >= full:
            waiting.extendleft(reversed(steps[at:]))
            steps = steps[:at]
            break
        try:
            group.add(step.plan(group.after), mark=step.mark)
        except Exception as error:
            refused[step] = error
    return [step for step in steps if step not in refused] if refused else steps, refused


class WriteQueue(ABC):
    """The queue of what changes one log; who makes one says how a group gets into its log.

    It is drained by a task that ends with the work: so an engine is not tied to one event loop, and programs that never
    close one leave nothing behind.
    """

    def __init__(self) -> None:
        self._waiting: deque[_Step] = deque()
        self._task: asyncio.Task[None] | None = None
        self._resting = False  # nothing is left to do, but the task has not ended

    @abstractmethod
    def group(self) -> WriteGroup:
        """An empty group on the log as it is."""

    @abstractmethod
    def write(self, group: WriteGroup) -> list[Appended]:
        """Write a group and make its state the present one; or raise ExternallyModifiedError or StorageFailureError,
        and change nothing."""

    async def commit(self, group: WriteGroup) -> list[Appended]:
        """Commit the group, as durable as was asked for."""
        return self.write(group)

    def immediate(self) -> bool:
        """True if a group can be written at once, by `write`, without waiting for anything."""
        return True

    async def enter(self) -> None:
        """Make ready for a write; what it raises goes to all who wait for it."""
        return

    async def leave(self) -> None:
        return

    @property
    def idle(self) -> bool:
        """True if nothing waits, and nobody is yet to be told of a step that is done."""
        return self._task is None and not self._waiting

    @property
    def busy(self) -> bool:
        return self._task is not None and not self._resting

    async def add(self, records: Sequence[NewRecord]) -> Appended:
        """Append at one's turn, within `run`."""
        group = self.group()
        group.add(records, mark=True)
        return (await self.commit(group))[0]

    def submit(self, step: AppendStep) -> None:
        """Append in this very call where nothing has to be waited for, else at its turn; the step is told its end. Where
        `more` are about to come it waits for them: to write each alone takes long."""
        waits = step.more or self._task is not None or self._waiting
        if waits or not self.immediate():
            self._put(step)
            return
        try:
            done = self._append_alone(step.plan, step.mark)
        except Exception as error:
            step.end(None, error)
        else:
            step.end(done, None)

    def _append_alone(self, plan: Plan, mark: bool) -> Appended:
        group = self.group()
        group.add(plan(group.after), mark=mark)
        return self.write(group)[0]

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do `work` alone at its turn. Cancelled while it waits it is not started; later it is finished."""
        job = _Job(work)
        self._put(job)
        result: T = await job.result_uncancelled()
        return result

    async def finished(self) -> None:
        while (task := self._task) is not None:
            await asyncio.wait([task])

    def _put(self, step: _Step) -> None:
        self._waiting.append(step)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._drain())

    async def _drain(self) -> None:
        try:
            while True:
                if not self._waiting:
                    # Those who wait for the last step go on before anything is written at once, past this queue.
                    self._resting = True
                    await asyncio.sleep(0)
                    self._resting = False
                    if not self._waiting:
                        break
                steps, waiting = _next_steps(self._waiting), self._waiting
                await self._take_turn(steps)
                if waiting and _kind(waiting[0]) is not _kind(steps[0]):
                    # Who waits for it goes on with the log as it left it, before the next step changes that, or is told.
                    await asyncio.sleep(0)
        finally:
            self._task, self._resting = None, False

    async def _take_turn(self, steps: list[_Step]) -> None:
        """Do one job, or appends together."""
        if all(step.done() for step in steps):
            return
        try:
            await self.enter()
            try:
                wanted = [step for step in steps if not step.done()]
                if wanted and isinstance(job := wanted[0], _Job):
                    job.taken = True
                    job.set_result(await job.work())
                elif wanted:
                    await self._commit(cast("list[AppendStep]", wanted))  # a job never has appends beside it
            finally:
                await self.leave()
        except BaseException as error:
            for step in steps:
                if step not in self._waiting and not step.done():
                    step.end(None, error)
            if not isinstance(error, Exception):
                raise

    async def _commit(self, steps: list[AppendStep]) -> None:
        group = self.group()
        planned, refused = plan_all(steps, group, self._waiting)
        try:
            results = await self.commit(group) if planned else []
        except Exception as error:
            if isinstance(error, StorageFailureError) and len(planned) > 1:
                again = [step for step in steps if step in planned or step in refused]
            else:
                for step in planned:
                    step.end(None, error)
                again = list(refused)  # they were refused in the light of what is not written after all
            for step in again:
                await self._commit([step])
        else:
            for step, result in zip(planned, results, strict=True):
                step.end(result, None)
            for step, refusal in refused.items():
                step.end(None, refusal)


# Writing a group. Blocking; run in the log's own thread


def untouched(log: StoredLog) -> bool:
    """True if the log's name still refers to our file, at the size we left it. Raises StorageFailureError."""
    try:
        if log.file is None:
            return durable.status(log.path) is None
        return durable.is_still(log.name, log.file.identity, log.state.length)
    except OSError as error:
        raise StorageFailureError.of(error, "look at the log", log.path) from error


def check_untouched(log: StoredLog) -> None:
    """Raise ExternallyModifiedError if a program that takes no lock changed the log."""
    if not untouched(log):
        raise changed_log(log)


def keeps_out(lock: tuple[str, Identity | None]) -> bool:
    """True if a log's lock (`FileLock.place`) still keeps others out, or nobody can look: where another file has its name,
    another process may own what stands here now."""
    try:
        return durable.is_still(*lock)
    except OSError:
        return True  # after a write this must not make it look undone; before one, the look at the log fails as well


class Written(Struct):
    log: StoredLog
    spans: list[tuple[LogState, LogState]]  # the states around each append of the group
    slipped: bool = False  # another program wrote to the log in between: the states are not the planned ones


def write_group(log: StoredLog, group: WriteGroup, durability: Durability) -> Written:
    """Write a group to the end of a log.

    Raises:
        ExternallyModifiedError, StorageFailureError: Nothing was written.
        UnwritableError: The log cannot be written to any more.
    """
    file = log.file
    if file is None:
        return _first_group(log, group, durability)
    good, data = log.state.length, b"".join(group.lines)
    end = _write(log, file, data)
    if end != good + len(data):
        return _interleaved_write(log, file, group, end, durability)
    if durability == "disk":
        _sync(log, file, good)
    log.store.put(group.first_line, b"".join(group.packed))
    return Written(log.at(group.after), group.spans)


def write_record(log: StoredLog, file: OpenFile, record: NewRecord) -> LogState | Written:
    """Write a single record unsynced: the new state, or `Written` if another process wrote in between."""
    before, line = log.state, record.body + b"\n"
    entry, after = entry_of(record, before, crc32(line), len(line))
    end = _write(log, file, line)
    if end != after.length:
        group = WriteGroup(before, after, before.lines, [line], [entry], [(before, after)])
        return _interleaved_write(log, file, group, end, "os")
    log.store.put(before.lines, entry)
    return after


def _write(log: StoredLog, file: OpenFile, data: bytes) -> int:
    """Write to the end of a log that is as we left it; says where that ended."""
    check_untouched(log)
    try:
        failpoint("append.before_write")
        end = file.append(data)
        failpoint("append.after_write")
    except OSError as error:
        _cut_back(log, file, log.state.length)
        raise StorageFailureError.of(error, "append to the log", log.path) from error
    return end


class GroupWriter:
    """Writes the groups of one log, and knows from the last ones whether its disk is quick.

    The way to the log's thread and back costs as much as a quick disk takes for a sync. So where the last `TRIED`
    writes were short, the next may be waited for on the event loop; after a long one `TRIED` go to the thread again, so
    that a slow disk holds up others once at most, and then only for the write that shows it.
    """

    TRIED: Final = 16
    SHORT_SECONDS: Final = 0.002

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self._now = now
        self._short = 0  # so many of the last writes, one after the other

    @property
    def quick(self) -> bool:
        return self._short >= self.TRIED and not stalling()

    def timed(self, log: StoredLog, group: WriteGroup, durability: Durability) -> Written:
        """Write a group and take the time; `quick` counts it, synced or not."""
        began = self._now()
        written = write_group(log, group, durability)
        self._short = self._short + 1 if self._now() - began < self.SHORT_SECONDS else 0
        return written


def _first_group(log: StoredLog, group: WriteGroup, durability: Durability) -> Written:
    try:
        created = new_log(log.path)
    except FileExistsError:
        check_untouched(log)
        raise
    except OSError as error:
        raise StorageFailureError.of(error, "create the log", log.path) from error
    return write_group(created, group, durability)


def _sync(log: StoredLog, file: OpenFile, good: int) -> None:
    try:
        file.sync()
        failpoint("append.after_sync")
    except OSError as error:
        failure = StorageFailureError.of(error, "make the log durable", log.path)
        try:
            file.truncate(good)
            log.file = _reopened(log, file)
        except OSError as second:
            raise UnwritableError(
                f"{failure.message}; the log is only readable until it is opened again", **failure.data
            ) from second
        raise failure from error


def _reopened(log: StoredLog, before: OpenFile) -> OpenFile:
    """The log through a new descriptor, its end checked against the index, after a sync that failed."""
    file = OpenFile(log.path, writable=True, appending=True)
    lines = log.state.lines
    if file.identity != before.identity or file.status().size != log.state.length:
        raise OSError("the log is not the file it was")
    file.forget_cached()
    try:
        differs = first_difference(file, log.store, max(0, lines - _TAIL), lines)
    except IndexDamagedError as error:
        raise OSError("the index is damaged") from error
    if differs is not None:
        raise OSError("the end of the log is not what was written")
    file.sync()
    return file


def _cut_back(log: StoredLog, file: OpenFile, good: int) -> None:
    try:
        file.truncate(good)
        if file.status().size == good:
            return
        reason = "its size is not what it must be"
    except OSError as error:
        reason = str(error)
    raise UnwritableError(
        f"half a record is at the end of {log.path.name} and cannot be cut off ({reason}); open the session again",
        path=str(log.path),
        errno="EIO",
    )


def _interleaved_write(log: StoredLog, file: OpenFile, group: WriteGroup, end: int, durability: Durability) -> Written:
    """Another program appended between our look and our write. Whole records of ours stay; they are not where we
    planned them, so what they amount to is found by scanning."""
    data = group.data
    start = end - len(data)
    whole = file.pread(start, len(data)) == data
    if not whole or (data[:1] != b"\n" and file.pread(start - 1, 1) != b"\n"):
        if whole and file.status().size == end:
            file.truncate(start)
        raise changed_log(log)
    if durability == "disk":
        try:
            file.sync()
        except OSError as error:
            raise UnwritableError.of(error, "make the log durable", log.path) from error
    shift = start - log.state.length
    now = extend(log, file.status().size).log
    spans = [
        (_state_at(now, before.length + shift), _state_at(now, after.length + shift)) for before, after in group.spans
    ]
    return Written(now, spans, slipped=True)


def _state_at(log: StoredLog, length: int) -> LogState:
    """The state at a byte that is the end of a line."""
    lines = bisect_left(range(log.state.lines), length, key=lambda lines: log.store.state(lines).length)
    return log.store.state(lines)


def note_unsynced(log: StoredLog) -> None:
    """Say in the index of a log that its lines may not have been synced."""
    if log.file is not None:
        log.store.note_unsynced(log.file.identity.inode)
