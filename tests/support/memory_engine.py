"""The `memory` engine: the same semantics with nothing on disk, for tests and for logs that need not last."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

from timeleap.errors import ReadOnlyError, TimelineNotFoundError
from timeleap.storage import durable, scan
from timeleap.storage.appending import WriteGroup, WriteQueue, group_on
from timeleap.storage.damage import Damage, Recovery
from timeleap.storage.durable import FileStatus, Identity, OpenFile
from timeleap.storage.engine import Drafted, LogEngine
from timeleap.storage.index import EntryStore
from timeleap.storage.log_values import (
    Access,
    Appended,
    AppendStep,
    Edit,
    LogState,
    NewRecord,
    Progress,
    Replaced,
    Replacement,
    Timeline,
    TimelineFacts,
)
from timeleap.storage.opened_log import Loaded
from timeleap.storage.reader import LogReader, StoredLog, same_bytes
from timeleap.storage.rewrite import Draft, copy_prefix, copy_timeline

T = TypeVar("T")

_NAME: Final = Path("context.jsonl")


class MemoryFile(OpenFile):
    """Bytes in memory that are read and written like a file."""

    __slots__ = ("_data",)

    def __init__(self, data: bytes = b"") -> None:
        self._fd = self._closing = -1
        self._users = []
        self._flags = 0
        self.path = _NAME
        self.identity = Identity(0, 0)
        self._data = bytearray(data)

    def pread(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`."""
        return bytes(self._data[offset : offset + size])

    def pwrite(self, data: durable.Buffer, offset: int) -> None:
        """Write at `offset`."""
        self._data[offset : offset + len(data)] = data

    def append(self, data: durable.Buffer) -> int:
        """Write at the end."""
        self._data += data
        return len(self._data)

    def status(self) -> FileStatus:
        """The size."""
        return FileStatus(self.identity, len(self._data), 0)

    def truncate(self, size: int) -> None:
        """Cut to `size` bytes."""
        del self._data[size:]

    def sync(self) -> None:
        """Nothing: memory does not last."""

    def copy_to(self, target: OpenFile, offset: int, size: int, at: int | None = None) -> None:
        """Copy bytes to the end of `target`, or to `at` in it."""
        target.pwrite(self.pread(offset, size), target.status().size if at is None else at)


@dataclass(frozen=True, slots=True)
class _Kept:
    number: int
    log: StoredLog
    facts: TimelineFacts


class MemoryEngine(LogEngine):
    """A log in memory."""

    def __init__(self, data: bytes = b"", access: Access = "write") -> None:
        """Args:
        data: The bytes of the log to begin with.
        access: `read` refuses changes.
        """
        self.access = access
        self._log = _scanned(data)
        self._kept: list[_Kept] = []
        self._epoch = 0
        self._generation = 0
        self._closed = False
        self._writer = _MemoryQueue(self)
        self._facts = TimelineFacts()
        self._recovery = Recovery(warnings=tuple(self._log.damage()))

    @property
    def head(self) -> str:
        """The head of the present log."""
        return self.head_at(self._log.state)

    def head_at(self, state: LogState) -> str:
        """Epoch, generation, and length with a fingerprint of the log's bytes."""
        return self._log.head(self._epoch, self._generation, state)

    @property
    def view(self) -> StoredLog:
        """The log as it is now."""
        return self._log

    async def add(self, records: Sequence[NewRecord]) -> Appended:
        """Append records at one's turn."""
        return await self._writer.add(records)

    def submit(self, append: AppendStep) -> None:
        """Append where nothing waits, else at its turn."""
        self._check_writable()
        self._writer.submit(append)

    async def run(self, job: Callable[[LogState], Awaitable[T]], *, rewrites: bool = False) -> T:
        """Run `job` alone at its turn in the queue."""
        self._check_writable()
        return await self._writer.run(lambda: job(self._log.state))

    @property
    def recovery(self) -> Recovery:
        """Findings in the initial bytes."""
        return self._recovery

    def timelines(self, view: LogReader | None = None) -> list[Timeline]:
        """All timelines, newest first."""
        return [
            Timeline(_id(k.number), f"{_id(k.number)}.jsonl", k.facts, s.length, s.messages, s.checkpoints, s.chain)
            for k in reversed(self._kept)
            for s in (k.log.state,)
        ]

    def timeline(self, timeline_id: str) -> StoredLog:
        """A reader of one timeline."""
        return self._timeline(timeline_id).log

    def remove_timeline(self, timeline_id: str) -> None:
        """Delete a timeline; its number is not used again."""
        self._check_writable()
        self._kept.remove(self._timeline(timeline_id))

    async def revise(self, edit: Edit, timeline_id: str | None = None) -> int:
        """Rewrite the live log or a timeline, keeping nothing of what it was."""
        self._check_writable()
        kept = None if timeline_id is None else self._timeline(timeline_id)
        draft = Draft(StoredLog(_NAME, MemoryFile(), EntryStore(), LogState()), MemoryFile())
        log = self._log if kept is None else kept.log
        changed = draft.add_lines(log, 0, log.state.lines, edit, keep=True)
        if changed and kept is None:
            self._log = draft.log
        elif changed and kept is not None:
            self._kept[self._kept.index(kept)] = replace(kept, log=draft.log)
        self._epoch += changed > 0
        return changed

    async def validate_in_background(self, progress: Progress | None = None) -> list[Damage]:
        """Nothing was left unchecked."""
        return []

    async def catch_up(self) -> None:
        """Nobody else writes."""

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Nobody else changes this memory: the callback is never called."""
        return lambda: None

    async def reload(self) -> Recovery:
        """Nothing to take over; the head changes all the same."""
        self._epoch += 1
        return self._recovery

    async def aclose(self) -> None:
        """Finish what was accepted. Idempotent."""
        self._closed = True
        await self._writer.finished()

    async def rewrite(self, steps: Callable[[], T]) -> T:
        """Take steps, of which none blocks."""
        return steps()

    @contextmanager
    def draft(self, replacement: Replacement) -> Iterator[Drafted]:
        """Build a new log beside the present one."""
        before = self._log
        draft = Draft(StoredLog(_NAME, MemoryFile(), EntryStore(), LogState()), MemoryFile())
        if replacement.from_timeline is not None:
            copy_timeline(draft, Loaded(self._timeline(replacement.from_timeline).log))
        else:
            copy_prefix(draft, before, replacement.keep_lines)
        draft.follow(before, replacement)
        number = self._generation + 1
        assert before.file is not None
        equals = self._equal(before) if replacement.reuse else None
        replaces = not (replacement.reuse and same_bytes(draft.file, before.file))
        head = draft.log.head(self._epoch, number)
        self._facts = replacement.facts
        yield Drafted(_id(number), replaces, equals, draft.log.state, head, log=draft.log)

    def commit(self, drafted: Drafted) -> Replaced:
        """Put the draft in the place of the present log."""
        before = self._log
        if drafted.replaces:
            self._generation += 1
            self._kept.append(_Kept(self._generation, before, self._facts))
            self._log = drafted.log
        return Replaced(before.state, self._log.state, drafted.kept_as or "", self.head)

    def _equal(self, log: StoredLog) -> str | None:
        """The timeline that has the bytes of a log; "" for an empty log, which needs none."""
        assert log.file is not None
        if not log.state.length:
            return ""
        same = (k for k in reversed(self._kept) if k.log.file is not None and same_bytes(k.log.file, log.file))
        return next((_id(k.number) for k in same), None)

    def _commit(self, group: WriteGroup) -> list[Appended]:
        if group.empty:
            return [Appended(self._log.state, self._log.state, self.head) for _ in group.spans]
        assert self._log.file is not None
        self._log.file.append(group.data)
        self._log.store.put(group.first_line, b"".join(group.packed))
        self._log = self._log.at(group.after)
        return [Appended(before, after, self.head_at(after)) for before, after in group.spans]

    def _check_writable(self) -> None:
        if self.access == "read":
            raise ReadOnlyError("the session is open to be read only")
        if self._closed:
            raise ReadOnlyError("the log is closed")

    def _timeline(self, timeline_id: str) -> _Kept:
        for kept in self._kept:
            if _id(kept.number) == timeline_id:
                return kept
        raise TimelineNotFoundError(f"no timeline {timeline_id!r:.80}", timelineId=timeline_id)


class _MemoryQueue(WriteQueue):
    """The queue of an engine: nothing is ever waited for."""

    def __init__(self, engine: MemoryEngine) -> None:
        super().__init__()
        self._engine = engine

    def group(self) -> WriteGroup:
        return group_on(self._engine._log)

    def write(self, group: WriteGroup) -> list[Appended]:
        return self._engine._commit(group)


def _id(number: int) -> str:
    return f"{_NAME.stem}_{number}"


def _scanned(data: bytes) -> StoredLog:
    file, store = MemoryFile(data), EntryStore()
    scanned = scan.thoroughly(file, LogState(), len(data), store)
    file.truncate(scanned.state.length)
    return StoredLog(_NAME, file, store, scanned.state, open_ended=scanned.open_ended)
