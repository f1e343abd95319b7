"""Between processes: locks, the record of who holds that of a log, and the watch for what others do to one. The only
module that calls flock and the like."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from timeleap import clock
from timeleap.errors import SessionLockedError, TimeleapError
from timeleap.storage import durable

_LOCKED_BYTE: Final = 1 << 30  # Windows locks are mandatory: far beyond the owner record, so that it stays readable
_RECORD_LIMIT: Final = 4096
PERIOD_SECONDS: Final = 0.1  # polled: that sees the same on every platform and on network file systems


class FileLock:
    """An exclusive lock between processes on a file; the system frees it at once when the process dies."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1

    @property
    def held(self) -> bool:
        return self._fd >= 0

    def try_acquire(self) -> bool:
        """Take the lock if it is free. Raises OSError where the lock file cannot be made or opened."""
        while True:
            fd = durable.open_regular(self._path, os.O_RDWR | os.O_CREAT)
            try:
                free = _try_lock(fd)
                there = durable.status(self._path)
                ours = free and there is not None and there.identity == durable.status_of(fd).identity
            except BaseException:
                os.close(fd)
                raise
            if ours:
                self._fd = fd
                return True
            os.close(fd)
            if not free:
                return False
            # Somebody removed the file meanwhile: a lock on it keeps nobody out.

    def write(self, data: bytes) -> None:
        """Replace the lock file's content (the owner record; `read` returns it).

        What is shorter than the content before it is filled up with spaces: to cut the file would cost a file system
        several milliseconds, and a lock that is taken for each write writes its record each time. Nobody else may read
        it, no matter which process made the file: the record may say how its holder is reached.
        """
        there = os.fstat(self._fd)
        if stat.S_IMODE(there.st_mode) != durable.FILE_MODE:
            durable.set_mode(self._fd, durable.FILE_MODE, self._path)
        durable.pwrite(self._fd, memoryview(data.ljust(there.st_size)), 0)

    def read(self) -> bytes:
        with suppress(OSError):
            fd = durable.open_regular(self._path, os.O_RDONLY)
            try:
                return durable.pread(fd, _RECORD_LIMIT, 0).rstrip()
            finally:
                os.close(fd)
        return b""

    def release(self) -> None:
        """Free the lock. Idempotent. The file stays: removing it would race with the next owner."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            try:
                _unlock(fd)
            finally:
                os.close(fd)


if sys.platform == "win32":

    def _try_lock(fd: int) -> bool:
        import msvcrt

        os.lseek(fd, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _unlock(fd: int) -> None:
        import msvcrt

        os.lseek(fd, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)

else:

    def _try_lock(fd: int) -> bool:
        import fcntl

        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(fd: int) -> None:
        import fcntl

        fcntl.flock(fd, fcntl.LOCK_UN)


# The lock of a log

LockMode = Literal["hold", "per-write"]

Endpoint = Mapping[str, Any]
"""How other processes reach the holder of a lock: `{address, token, protocolVersion}`, or `{problem}` where they
cannot. It gives the right to act on the session: it goes into the record, never into an error, a reply or a log."""

WAIT_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.005
_LOOKERS: Final = 3
_LONGEST_WORD: Final = 1000


class OwnerRecord(NamedTuple):
    """The content of a lock file. Anybody may have written it: what is not of its form is left out."""

    owner: dict[str, Any] | None = None  # `{pid, host, since}`; None where no process is named
    mode: LockMode | None = None
    endpoint: Endpoint | None = None
    boot: str | None = None  # the start of the system that the holder runs on


@cache
def boot_id() -> str | None:
    """Identifies this start of this machine's system, in all of its containers; None where the system does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip() or None
    except (OSError, ValueError):
        return None


def decode_record(data: bytes) -> OwnerRecord:
    try:
        record: Any = json.loads(data)
    except (ValueError, RecursionError):
        return OwnerRecord()
    if not isinstance(record, dict):
        return OwnerRecord()
    pid, mode, endpoint = record.get("pid"), record.get("mode"), record.get("endpoint")
    named: dict[str, Any] = {"pid": pid} if type(pid) is int and 0 < pid < 1 << 32 else {}
    named |= {name: record[name] for name in ("host", "since") if _is_word(record.get(name))}
    if isinstance(endpoint, dict):  # one without an address leads nowhere, which is known at once
        texts = ("address", "token", "problem")
        endpoint = {name: value for name, value in endpoint.items() if name not in texts or _is_word(value)}
    return OwnerRecord(
        owner=named if "pid" in named else None,
        mode=mode if mode in ("hold", "per-write") else None,
        endpoint=endpoint if isinstance(endpoint, dict) else None,
        boot=record["boot"] if _is_word(record.get("boot")) else None,
    )


def _is_word(value: object) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST_WORD and value.isprintable()


class SessionLock(FileLock):
    """The right to write to a log. Freed by the system at once when the process dies.

    A lock held for as long as a session is open says so in its record: waiting for it is in vain. One taken for each
    write is waited for.
    """

    def __init__(self, log: Path, endpoint: Endpoint | None = None) -> None:
        super().__init__(log.parent / f".{log.name}.lock")
        self._endpoint = endpoint

    def holder(self) -> OwnerRecord:
        """The record that was written last; valid only while the lock is held."""
        return decode_record(self.read())

    def reachable_at(self, endpoint: Endpoint | None) -> None:
        """From the next record on, say how we are reached."""
        self._endpoint = endpoint

    def untried(self) -> bool:
        return not self._path.exists()

    def taken(self) -> bool:
        """True if a process holds the lock now. Takes it for an instant to see; never creates the lock file."""
        if not self._path.exists():
            return False
        free = self.try_acquire()
        if free:
            self.release()
        return not free

    async def acquire(self, mode: LockMode, wait: float = WAIT_SECONDS) -> None:
        """Take the lock, waiting so many seconds for one who holds it only for a write.

        Raises:
            SessionLockedError: Another process holds it.
            StorageFailureError: The lock file cannot be made (a read-only store, no permission).
        """
        until = time.monotonic() + wait
        attempts = 0
        while not self.try_acquire():
            attempts += 1
            held = self.holder().mode == "hold"
            # The first failures may be somebody who only looked (`taken`), the record of an owner who is gone.
            if (held and attempts > _LOOKERS) or time.monotonic() >= until:
                raise self._locked()
            await asyncio.sleep(_PAUSE_SECONDS)
        self.announce(mode)

    def announce(self, mode: LockMode) -> None:
        record: dict[str, Any] = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": clock.now_iso(),
            "mode": mode,
            "boot": boot_id(),
        }
        if mode == "hold" and self._endpoint is not None:
            record["endpoint"] = dict(self._endpoint)
        with suppress(OSError):  # the record is a courtesy; the lock is what counts
            self.write(json.dumps(record).encode())

    def try_acquire(self) -> bool:
        with durable.storage_errors("take the session's lock", self._path):
            return super().try_acquire()

    def _locked(self) -> SessionLockedError:
        owner = self.holder().owner
        who = f"process {owner.get('pid')} on {owner.get('host')}" if owner else "another process"
        return SessionLockedError(f"the session is being written to by {who}", owner=owner)


class Watch:
    """Calls back on the event loop when `look` says that something changed."""

    def __init__(self, look: Callable[[], Awaitable[bool]]) -> None:
        self._look = look
        self._callbacks: dict[object, Callable[[], None]] = {}
        self._task: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()

    def add(self, callback: Callable[[], None]) -> Callable[[], None]:
        key = object()
        self._callbacks[key] = callback
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

        def stop() -> None:
            self._callbacks.pop(key, None)
            if not self._callbacks:
                self.close()

        return stop

    def close(self) -> None:
        task, self._task = self._task, None
        self._callbacks.clear()
        if task is not None and not task.get_loop().is_closed():
            task.cancel()

    def tell(self) -> None:
        for callback in list(self._callbacks.values()):
            callback()

    async def now(self) -> None:
        """Look at once; when this returns, what was there before the call has been seen and told."""
        async with self._turn:
            try:
                changed = await self._look()
            except (TimeleapError, OSError):
                return  # a log that cannot be read just now may be readable at the next look
            if changed:
                self.tell()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(PERIOD_SECONDS)
            await self.now()
