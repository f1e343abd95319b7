"""The one writer of a descriptor: in order, whole, without ever blocking the event loop.

What surely fits is written at once, on the loop; the rest is handed to a thread that may block. Nothing overtakes:
while the thread has anything, everything goes through it. The descriptor is never made non-blocking: that would change
it for every process that shares it (a terminal, a pipe that is also our standard error).
"""

from __future__ import annotations

import array
import asyncio
import logging
import os
import select
import socket
import stat
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

log = logging.getLogger(__name__)

HIGH_WATER = 4 * 1024 * 1024
"""Bytes waiting for a slow reader from which on its requests wait, too."""
LOW_WATER = 1024 * 1024

_PIECE = 64 * 1024  # written at a time, so that a slow reader can be told from one that is gone


TryWrite = Callable[[bytes], int]
"""Writes as much as is sure not to block, and says how much that was."""


def unblocking(fd: int, resources: ExitStack) -> TryWrite:
    """The way to write to `fd` without blocking that its kind allows; writes nothing where there is none.

    Args:
        fd: Where to.
        resources: Gets what has to be closed in the end.
    """
    status = os.fstat(fd)
    if stat.S_ISREG(status.st_mode) or _is_null_device(status):
        return lambda data: os.write(fd, data)
    if stat.S_ISFIFO(status.st_mode) and hasattr(select, "poll"):
        return _pipe_writer(fd)
    if stat.S_ISSOCK(status.st_mode) and hasattr(socket, "MSG_DONTWAIT"):
        return _socket_writer(resources.enter_context(closing(socket.socket(fileno=os.dup(fd)))))
    return lambda data: 0


def _is_null_device(status: os.stat_result) -> bool:
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == Path(os.devnull).stat().st_rdev


def _pipe_writer(fd: int) -> TryWrite:
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    capacity = _pipe_capacity(fd)

    def try_write(data: bytes) -> int:
        if not poll.poll(0):
            return 0
        # A pipe that is ready takes PIPE_BUF bytes; an empty one all it can hold.
        if len(data) > select.PIPE_BUF and not (len(data) <= capacity and _is_empty(fd)):
            return 0
        return os.write(fd, data)

    return try_write


if sys.platform == "linux":
    import fcntl
    import termios

    def _pipe_capacity(fd: int) -> int:
        return fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ)

    def _is_empty(fd: int) -> bool:
        waiting = array.array("i", [1])
        fcntl.ioctl(fd, termios.FIONREAD, waiting)
        return waiting[0] == 0

else:

    def _pipe_capacity(fd: int) -> int:
        del fd
        return 0

    def _is_empty(fd: int) -> bool:
        del fd
        return False


def _socket_writer(connection: socket.socket) -> TryWrite:
    def try_write(data: bytes) -> int:
        try:
            return connection.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0

    return try_write


def write_some(fd: int, data: memoryview) -> int:
    """Write the beginning of `data`, waiting as long as that takes; returns how much it was."""
    while True:
        try:
            return os.write(fd, data[:_PIECE])
        except BlockingIOError:
            # Somebody else made the descriptor non-blocking.
            select.select([], [fd], [])


class DescriptorWriter:
    """Writes to one descriptor.

    Args:
        fd: Where to; stays open.
        listener: Who is told how it goes, on the event loop.
    """

    def __init__(self, fd: int, listener: asyncio.BaseProtocol) -> None:
        self._fd = fd
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._resources = ExitStack()
        self._try_write = unblocking(fd, self._resources)
        self._changed = threading.Condition()
        self._queue: list[bytes] = []  # for the thread
        self._waiting = 0  # bytes in the queue and in the thread's hands
        self._written = 0  # bytes the thread has written, ever
        self._paused = False
        self._lost = False
        self._closed = False
        self._thread: threading.Thread | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    def write(self, data: bytes) -> None:
        """Queue `data`; called on the event loop only."""
        if self._lost or self._closed:
            return
        if self._idle.is_set():
            try:
                written = self._try_write(data)
            except OSError as error:
                self._lose(error)
                return
            if written == len(data):
                return
            data = data[written:]
        self._hand_over(data)

    async def drain(self) -> None:
        """Wait until everything is written, or nobody reads it any more."""
        while not self._idle.is_set():  # more may come before we are woken
            await self._idle.wait()

    def hurry(self, patience: float) -> None:
        """From now on a reader that takes nothing for so many seconds counts as gone."""
        self._loop.call_later(patience, self._judge, self._written, patience)

    def close(self) -> None:
        """Let the thread end. What is still waiting is dropped."""
        with self._changed:
            self._closed = True
            self._queue.clear()
            self._changed.notify()
        self._resources.close()

    def _judge(self, written: int, patience: float) -> None:
        if self._idle.is_set() or self._lost:
            return
        if self._written == written:
            self._lose(TimeoutError(f"nothing was read for {patience:g} s"))
        else:
            self.hurry(patience)

    def _hand_over(self, data: bytes) -> None:
        self._idle.clear()
        with self._changed:
            self._queue.append(data)
            self._waiting += len(data)
            self._changed.notify()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="timeleap-writer", daemon=True)
            self._thread.start()
        if self._waiting > HIGH_WATER and not self._paused:
            self._paused = True
            self._listener.pause_writing()

    def _lose(self, error: Exception) -> None:
        if self._lost:
            return
        self._lost = True
        log.warning("nobody reads our output any more: %s", error)
        self.close()
        self._idle.set()
        self._listener.connection_lost(error)

    def _eased(self) -> None:
        """On the loop: the thread has written something that matters."""
        with self._changed:
            waiting = self._waiting
        if not waiting:
            self._idle.set()
        if self._paused and waiting <= LOW_WATER and not self._lost:
            self._paused = False
            self._listener.resume_writing()

    # In the thread

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._queue and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return
                batch, self._queue = self._queue, []
            try:
                for data in batch:
                    self._write_all(data)
            except OSError as error:
                self._tell(self._lose, error)
                return

    def _write_all(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            written = write_some(self._fd, view)
            view = view[written:]
            if self._account(written):
                self._tell(self._eased)

    def _account(self, written: int) -> bool:
        """Count written bytes; True if the loop has to know."""
        with self._changed:
            self._written += written
            self._waiting -= written
            return not self._waiting or (self._paused and self._waiting <= LOW_WATER)

    def _tell(self, callback: Callable[..., None], *args: object) -> None:
        if not self._loop.is_closed():
            try:
                self._loop.call_soon_threadsafe(callback, *args)
            except RuntimeError:
                log.debug("the event loop ended before the writer")
