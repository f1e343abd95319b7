"""Logs by their path: through one engine for all objects of a process that use it, or read and forked without one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from weakref import WeakValueDictionary

from msgspec import Struct
from msgspec.structs import replace

from timeleap.errors import SessionExistsError
from timeleap.storage import durable
from timeleap.storage.damage import Damage
from timeleap.storage.durable import Identity, status, storage_errors
from timeleap.storage.index import EntryStore, IndexDamagedError, index_path, old_index, peek
from timeleap.storage.jsonl import JsonlEngine
from timeleap.storage.load import load
from timeleap.storage.log_notes import MemoryNotes, Notes
from timeleap.storage.log_values import Access, Durability, LogState, Progress, Timeline
from timeleap.storage.owner_lock import Endpoint, LockMode
from timeleap.storage.reader import LogReader, StoredLog, timeline_names
from timeleap.storage.rewrite import Draft, Timelines, copy_prefix

_Key = tuple[Identity | str, str, Access]


class _Shared(Struct):
    """An engine, who uses it, and who of them needs the lock held."""

    engine: JsonlEngine
    users: int = 0
    holders: int = 0


_engines: dict[_Key, _Shared] = {}
_turns: WeakValueDictionary[_Key, asyncio.Lock] = WeakValueDictionary()
_of_parent: list[_Shared] = []


def _start_over() -> None:
    """In a forked process: open each log again. The engines of before wait for threads and tasks that are not here; they
    are kept, since their locks are those of the process that forked this one."""
    _of_parent.extend(_engines.values())
    _engines.clear()
    _turns.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_over)


class Lease:
    """The right to use a shared engine, until `aclose`."""

    def __init__(self, key: _Key, shared: _Shared, lock: LockMode) -> None:
        self._key = key
        self._shared = shared
        self._lock = lock
        self._closed = False
        self._process = os.getpid()
        self._closing: asyncio.Task[None] | None = None

    @property
    def engine(self) -> JsonlEngine:
        return self._shared.engine

    @property
    def forked(self) -> bool:
        """True in a process that was forked since: the engine is that of the other one."""
        return self._process != os.getpid()

    def forget(self) -> None:
        """Give nothing back: the engine is that of the process that forked this one."""
        self._closed = True

    async def aclose(self) -> None:
        """Give the engine back; the last one to do so closes it. Idempotent; who cancels it only stops waiting."""
        if self._closing is None:
            if self._closed:
                return
            self._closed = True
            self._closing = asyncio.get_running_loop().create_task(self._give_back())
        await asyncio.shield(self._closing)

    async def _give_back(self) -> None:
        shared = self._shared
        async with _turn(self._key):
            shared.users -= 1
            shared.holders -= self._lock == "hold"
            if shared.users == 0:
                del _engines[self._key]
                await shared.engine.aclose()
            elif shared.holders == 0 and self._lock == "hold":
                await shared.engine.let_go()

    def abandon(self) -> None:
        """Give the engine back without waiting, for an object nobody refers to any more (its finalizer): nothing can be
        under way on it then. The engine goes with its last reference, and so do its descriptors and its lock."""
        if self._closed:
            return
        self._closed = True
        self._shared.users -= 1
        self._shared.holders -= self._lock == "hold"
        # While another object is being given this engine, the registry keeps it.
        if self._shared.users == 0 and self._key not in _turns:
            _engines.pop(self._key, None)


async def share(
    path: Path,
    *,
    access: Access = "write",
    durability: Durability = "disk",
    lock: LockMode = "hold",
    notes: Notes | None = None,
    progress: Progress | None = None,
    endpoint: Endpoint | None = None,
    open_engine: Callable[..., Awaitable[JsonlEngine]] | None = None,
) -> Lease:
    """Use the engine of a log, opening it (`open_engine`, or `JsonlEngine.open`) if nobody in this process has it open.

    A caller that needs the lock held gets it held; others then write under it. The durability is the strictest that was
    asked for; the notes are those of the first who brought any.
    """
    key = _key(path, access)
    async with _turn(key):
        shared = _engines.get(key)
        if shared is None:
            engine = await (open_engine or JsonlEngine.open)(
                path, access=access, durability=durability, lock=lock, notes=notes, progress=progress, endpoint=endpoint
            )
            shared = _engines[key] = _Shared(engine)
        else:
            await shared.engine.adapt(
                durability=durability, lock=lock, notes=notes, progress=progress, endpoint=endpoint
            )
        shared.users += 1
        shared.holders += lock == "hold"
    return Lease(key, shared, lock)


def _turn(key: _Key) -> asyncio.Lock:
    """Opening and closing of one log come one after the other: a new engine must not meet the lock of the old one."""
    return _turns.setdefault(key, asyncio.Lock())


def _key(path: Path, access: Access) -> _Key:
    """Directories are known by what they are, not by how they are called."""
    directory = status(Path(os.path.realpath(path.parent)))
    return (directory.identity if directory else str(path.parent.absolute())), path.name, access


# Without an engine


class StoredLogs:
    """The logs of a session on disk, open or not. Nothing is written, no lock is taken."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._timelines = Timelines(log, MemoryNotes(), keep_index=False)

    def live(self) -> LogReader:
        with storage_errors("read the log", self._log):
            return load(self._log, writable=False).log

    def timelines(self) -> Sequence[Timeline]:
        return self._timelines.listed()

    def timeline(self, timeline_id: str) -> LogReader:
        return self._timelines.reader(timeline_id)

    def cut_timelines(self) -> list[tuple[str, Damage]]:
        """The timelines whose files are shorter than their indexes say: their names, and what they lack. Blocking; reads
        those alone."""
        found = []
        for timeline in self.timelines():
            known = old_index(self._log.with_name(timeline.file))
            if known is None or _length(known.store) <= timeline.bytes:
                continue
            lost = [replace(damage, kind="timelineCut") for damage in self.timeline(timeline.timeline_id).damage()]
            found += [(timeline.file, damage) for damage in lost[:1]]
        return found


def _length(store: EntryStore) -> int:
    """The bytes of a log that its index knows of; 0 if that is damaged."""
    with suppress(IndexDamagedError):
        return store.state(store.count).length
    return 0


def has_timelines(log: Path) -> bool:
    """True if there are files beside a log that are named as its timelines. Raises OSError."""
    return bool(timeline_names(log))


def state_of(log: Path) -> LogState:
    """The state of a log from its index, else by a scan. Raises OSError."""
    return state_and_loss(log, expected=False)[0]


def state_and_loss(log: Path, *, expected: bool) -> tuple[LogState, Damage | None]:
    """The state of a log, and its loss that nobody has accepted yet. `expected`: other files say that there was one.
    Raises OSError."""
    state = peek(log)
    if state is not None:
        return state, None
    found = load(log, writable=False, expected=expected)
    if not found.undecided:
        return found.log.state, None
    return found.log.state, found.lost


# Beginning a new log with the first lines of another one


def fork_log(source: LogReader, keep_lines: int, target: Path) -> LogState:
    """Make the log `target` of the first lines of another log (a timeline's reader, or the view of an engine), damaged
    ones left out. Blocking, durable, one step. Says what the state of the new log is.

    Raises:
        CorruptedError: A line of the source is not what was written.
        SessionExistsError: There is a log of that name.
        StorageFailureError: The operating system refused.
    """
    assert isinstance(source, StoredLog)  # what lies in a store is on disk
    with storage_errors("replace the log", target), Draft.for_log(target) as draft:
        copy_prefix(draft, source, keep_lines)
        draft.finish()
        if durable.status(target) is not None:
            raise SessionExistsError(f"there is a log at {target.name} already")
        draft.file.close()
        try:
            durable.replace_file(draft.index.path, index_path(target))
            durable.replace_file(draft.file.path, target)
            durable.sync_directory(target.parent)
        except OSError:  # where that cannot be made durable, it is taken away again
            with suppress(OSError):
                durable.remove_file(target)
                durable.remove_file(index_path(target))
            raise
    return draft.log.state
