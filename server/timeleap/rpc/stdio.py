"""The process's own descriptors as a transport.

`claim` moves the protocol away from descriptors 0 and 1: a stray `print`, or what a child process writes to its
standard output, goes to the standard error output, never into the stream; a read of the standard input finds it empty.

Output goes in order, whole, and never blocks the event loop: what surely fits is written at once, on the loop; the rest
is handed to a thread that may block. Nothing overtakes: while the thread has anything, everything goes through it. The
descriptor is never made non-blocking: that would change it for every process that shares it (a terminal, a pipe that is
also our standard error).
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
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import NamedTuple

if sys.platform == "linux":
    import fcntl
    import termios

log = logging.getLogger(__name__)

READ = 256 * 1024
"""Bytes read at a time: what comes together is worked on together."""

SHORT = 16 * 1024
"""Bytes below which a piece is not written by itself."""

PIPE = 1024 * 1024
"""Bytes that a pipe is to hold: what it takes at once costs no thread."""

CHUNK = 64 * 1024
"""Bytes written at a time by the thread: so a slow reader can be told from one that is gone."""

HIGH_WATER = 4 * 1024 * 1024
"""Bytes waiting for a slow reader from which on its requests wait, too."""
LOW_WATER = 1024 * 1024


class Descriptors(NamedTuple):
    """Where the protocol is read from and written to."""

    input: int
    output: int


def claim() -> Descriptors:
    """Take descriptors 0 and 1 for the protocol and put harmless ones in their place. Once a process.

    A standard error output that is closed becomes the null device: else the next file to be opened gets its number, and
    libuv ends the process where it is to close that.
    """
    null = os.open(os.devnull, os.O_RDWR)
    taken = Descriptors(_duplicate(0, null), _duplicate(1, null))
    _binary(taken.input)
    _binary(taken.output)
    os.dup2(null, 0)
    if not _is_open(2):
        os.dup2(null, 2)
    os.dup2(2, 1)
    if null > 2:
        os.close(null)
    if sys.stderr is None:  # it was closed when Python began
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
    return taken


def _duplicate(fd: int, instead: int) -> int:
    """A descriptor above the standard ones; a closed one counts as the null device."""
    source = fd if _is_open(fd) else instead
    copies: list[int] = []
    while not copies or copies[-1] <= 2:
        copies.append(os.dup(source))
    for copy in copies[:-1]:
        os.close(copy)
    return copies[-1]


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _binary(fd: int) -> None:
    """Windows translates line ends unless told not to."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.setmode(fd, os.O_BINARY)


def _read(fd: int) -> bytes | None:
    """Some input: empty at its end, None if there is none just now."""
    try:
        return os.read(fd, READ)
    except (BlockingIOError, InterruptedError):
        return None
    except OSError as error:
        log.warning("the input ended with an error: %s", error.strerror)
        return b""


class PolledSource:
    """Reads when the event loop says that there is something: pipes, sockets and terminals where it can watch them."""

    def __init__(self, fd: int, receiver: asyncio.Protocol) -> None:
        self._fd = fd
        self._receiver = receiver
        self._loop = asyncio.get_running_loop()
        self._ended = False

    def start(self) -> bool:
        """Begin; False where the descriptor cannot be watched: files cannot, nor can anything on Windows."""
        try:
            self._loop.add_reader(self._fd, self._read)
        except (OSError, NotImplementedError, ValueError):
            return False
        return True

    def pause(self) -> None:
        self._loop.remove_reader(self._fd)

    def resume(self) -> None:
        if not self._ended:
            self._loop.add_reader(self._fd, self._read)

    def _read(self) -> None:
        data = _read(self._fd)
        if data:
            self._receiver.data_received(data)
        elif data is not None:
            self._ended = True
            self._loop.remove_reader(self._fd)
            self._receiver.eof_received()


class ThreadedSource:
    """Reads in a thread of its own, one chunk ahead at most."""

    def __init__(self, fd: int, receiver: asyncio.Protocol) -> None:
        self._fd = fd
        self._receiver = receiver
        self._loop = asyncio.get_running_loop()
        self._may_read = threading.Semaphore(1)
        self._paused = False
        self._held = False  # a chunk was delivered during a pause: permission to read on is owed

    def start(self) -> bool:
        # A daemon: nothing can wake a thread out of a read, and the end of the process must not wait for it.
        threading.Thread(target=self._work, name="timeleap-reader", daemon=True).start()
        return True

    def pause(self) -> None:
        """Deliver nothing more for now, but for the one chunk that may be on its way."""
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        if self._held:
            self._held = False
            self._may_read.release()

    def _work(self) -> None:
        data: bytes | None = b"begin"
        while data:
            self._may_read.acquire()
            while (data := _read(self._fd)) is None:
                select.select([self._fd], [], [])
            try:
                self._loop.call_soon_threadsafe(self._deliver, data)
            except RuntimeError:
                return  # the loop is closed

    def _deliver(self, data: bytes) -> None:
        if not data:
            self._receiver.eof_received()
            return
        self._receiver.data_received(data)
        if self._paused:
            self._held = True
        else:
            self._may_read.release()


TryWrite = Callable[[bytes], int]
"""Writes as much as is sure not to block, and says how much that was."""


def _unblocking(fd: int, resources: ExitStack) -> TryWrite:
    """The way to write to `fd` without blocking that its kind allows; `resources` gets what has to be closed."""
    status = os.fstat(fd)
    null = stat.S_ISCHR(status.st_mode) and status.st_rdev == Path(os.devnull).stat().st_rdev
    if stat.S_ISREG(status.st_mode) or null:
        return lambda data: os.write(fd, data)
    if stat.S_ISFIFO(status.st_mode) and hasattr(select, "poll"):
        return _pipe_writer(fd, resources)
    if stat.S_ISSOCK(status.st_mode) and hasattr(socket, "MSG_DONTWAIT"):
        return _socket_writer(resources.enter_context(closing(socket.socket(fileno=os.dup(fd)))))
    return lambda data: 0


def _pipe_writer(fd: int, resources: ExitStack) -> TryWrite:
    if sys.platform == "linux":
        with suppress(OSError):  # the system may give no more
            if fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ) < PIPE:
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE)
    try:
        # What is opened anew has its own flags: this does not block, though the descriptor does for all who share it.
        own = os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK)
    except OSError:  # only Linux has such names
        return _careful_pipe_writer(fd)
    resources.callback(os.close, own)

    def try_write(data: bytes) -> int:
        try:
            return os.write(own, data)
        except BlockingIOError:
            return 0

    return try_write


def _careful_pipe_writer(fd: int) -> TryWrite:
    poll = select.poll()
    poll.register(fd, select.POLLOUT)

    def try_write(data: bytes) -> int:
        # A pipe that is ready takes PIPE_BUF bytes; an empty one all it can hold.
        fits = poll.poll(0) and (len(data) <= select.PIPE_BUF or len(data) <= _room_if_empty(fd))
        return os.write(fd, data) if fits else 0

    return try_write


def _room_if_empty(fd: int) -> int:
    if sys.platform != "linux":
        return 0
    waiting = array.array("i", [1])
    fcntl.ioctl(fd, termios.FIONREAD, waiting)
    return 0 if waiting[0] else fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ)


def _socket_writer(connection: socket.socket) -> TryWrite:
    def try_write(data: bytes) -> int:
        try:
            return connection.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0

    return try_write


class DescriptorWriter(asyncio.Transport):
    """Writes to a descriptor, which stays open; `listener` is told how it goes, on the event loop."""

    def __init__(self, fd: int, listener: asyncio.BaseProtocol) -> None:
        super().__init__()
        self._fd = fd
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._resources = ExitStack()
        self._try_write = _unblocking(fd, self._resources)
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

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Queue `data`; called on the event loop only."""
        if self._closed:
            return
        data = bytes(data)
        if self._idle.is_set():
            try:
                written = self._try_write(data)
            except OSError as error:
                self._lose(error)
                return
            if written == len(data):
                return
            data = data[written:]
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

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Queue pieces of something long: each is written by itself, so that it is read while the next one is written.
        What is short goes along with the next: what wakes the client twice costs it more."""
        short = b""
        for data in list_of_data:
            short += data
            if len(short) >= SHORT:
                self.write(short)
                short = b""
        if short:
            self.write(short)

    async def drain(self) -> None:
        """Wait until everything is written, or nobody reads it any more."""
        while not self._idle.is_set():  # more may come before we are woken
            await self._idle.wait()

    def hurry(self, patience: float) -> None:
        """From now on a reader that takes nothing for so many seconds counts as gone."""
        self._loop.call_later(patience, self._judge, self._written, patience)

    def is_closing(self) -> bool:
        return self._closed

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
                    self._write_all(memoryview(data))
            except OSError as error:
                self._tell(self._lose, error)
                return

    def _write_all(self, rest: memoryview) -> None:
        while rest:
            try:
                written = os.write(self._fd, rest[:CHUNK])
            except BlockingIOError:
                select.select([], [self._fd], [])  # somebody else made the descriptor non-blocking
                continue
            rest = rest[written:]
            with self._changed:
                self._written += written
                self._waiting -= written
                matters = not self._waiting or (self._paused and self._waiting <= LOW_WATER)
            if matters:
                self._tell(self._eased)

    def _tell(self, callback: Callable[..., None], *args: object) -> None:
        if not self._loop.is_closed():
            try:
                self._loop.call_soon_threadsafe(callback, *args)
            except RuntimeError:
                log.debug("the event loop ended before the writer")


class StdioTransport(DescriptorWriter):
    """Two descriptors as one transport; `receiver` gets what is read."""

    def __init__(self, descriptors: Descriptors, receiver: asyncio.Protocol) -> None:
        super().__init__(descriptors.output, receiver)
        self._input = descriptors.input
        self._receiver = receiver
        self._source: PolledSource | ThreadedSource = PolledSource(descriptors.input, receiver)

    def start(self) -> None:
        """Begin to read."""
        if not self._source.start():
            self._source = ThreadedSource(self._input, self._receiver)
            self._source.start()

    def pause_reading(self) -> None:
        self._source.pause()

    def resume_reading(self) -> None:
        self._source.resume()

    def close(self) -> None:
        """Read and write nothing more. The descriptors stay open until the process ends: a thread may be in a read."""
        self._source.pause()
        super().close()
