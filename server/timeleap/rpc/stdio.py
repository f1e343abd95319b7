"""The process's own descriptors as a transport.

`claim` moves the protocol away from descriptors 0 and 1: a stray `print`, or a child process that writes to its standard
output, ends up on the standard error output and never in the stream; a read of the standard input finds it empty.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
import threading
from dataclasses import dataclass

from timeleap.rpc.descriptor_writer import DescriptorWriter

log = logging.getLogger(__name__)

CHUNK = 64 * 1024
"""Bytes read at a time."""


@dataclass(frozen=True, slots=True)
class Descriptors:
    """Where the protocol is read from and written to."""

    input: int
    output: int


def claim() -> Descriptors:
    """Take descriptors 0 and 1 for the protocol and put harmless ones in their place. Once a process."""
    null = os.open(os.devnull, os.O_RDWR)
    taken = Descriptors(_duplicate(0, null), _duplicate(1, null))
    _binary(taken.input)
    _binary(taken.output)
    os.dup2(null, 0)
    os.dup2(2 if _is_open(2) else null, 1)
    if null > 2:
        os.close(null)
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
    try:
        import msvcrt
    except ImportError:
        return
    msvcrt.setmode(fd, os.O_BINARY)  # type: ignore[attr-defined]


class PolledSource:
    """Reads when the event loop says that there is something: pipes, sockets and terminals where it can watch them."""

    def __init__(self, fd: int, receiver: asyncio.Protocol) -> None:
        self._fd = fd
        self._receiver = receiver
        self._loop = asyncio.get_running_loop()
        self._ended = False

    def start(self) -> bool:
        """Begin; returns whether the descriptor can be watched: files cannot, nor can anything on Windows."""
        try:
            self._loop.add_reader(self._fd, self._read)
        except (OSError, NotImplementedError, ValueError):
            return False
        return True

    def pause(self) -> None:
        """Deliver nothing more for now."""
        self._loop.remove_reader(self._fd)

    def resume(self) -> None:
        """Deliver again."""
        if not self._ended:
            self._loop.add_reader(self._fd, self._read)

    def _read(self) -> None:
        try:
            data = os.read(self._fd, CHUNK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            log.warning("the input ended with an error: %s", error.strerror)
            data = b""
        if data:
            self._receiver.data_received(data)
        else:
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
        """Deliver again."""
        self._paused = False
        if self._held:
            self._held = False
            self._may_read.release()

    def _work(self) -> None:
        data = b"begin"
        while data:
            self._may_read.acquire()
            data = self._read()
            try:
                self._loop.call_soon_threadsafe(self._deliver, data)
            except RuntimeError:
                return  # the loop is closed

    def _read(self) -> bytes:
        while True:
            try:
                return os.read(self._fd, CHUNK)
            except BlockingIOError:
                select.select([self._fd], [], [])
            except OSError as error:
                log.warning("the input ended with an error: %s", error.strerror)
                return b""

    def _deliver(self, data: bytes) -> None:
        if not data:
            self._receiver.eof_received()
            return
        self._receiver.data_received(data)
        if self._paused:
            self._held = True
        else:
            self._may_read.release()


class StdioTransport(asyncio.Transport):
    """Two descriptors as one transport.

    Args:
        descriptors: Where to read and write.
        receiver: Gets what is read.
    """

    def __init__(self, descriptors: Descriptors, receiver: asyncio.Protocol) -> None:
        super().__init__()
        self._descriptors = descriptors
        self._receiver = receiver
        self._writer = DescriptorWriter(descriptors.output, receiver)
        self._source: PolledSource | ThreadedSource = PolledSource(descriptors.input, receiver)
        self._closing = False

    def start(self) -> None:
        """Begin to read."""
        if not self._source.start():
            self._source = ThreadedSource(self._descriptors.input, self._receiver)
            self._source.start()

    def pause_reading(self) -> None:
        """Deliver nothing more for now."""
        self._source.pause()

    def resume_reading(self) -> None:
        """Deliver again."""
        self._source.resume()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._writer.write(bytes(data))

    def is_closing(self) -> bool:
        """True if `close` was called."""
        return self._closing

    async def drain(self) -> None:
        """Wait until everything is written, or nobody reads it any more."""
        await self._writer.drain()

    def hurry(self, patience: float) -> None:
        """From now on a reader that takes nothing for so many seconds counts as gone."""
        self._writer.hurry(patience)

    def close(self) -> None:
        """Read and write nothing more. The descriptors are left to the end of the process: a thread may be in a read."""
        if not self._closing:
            self._closing = True
            self._source.pause()
            self._writer.close()
