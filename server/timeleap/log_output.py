"""The log and the standard error output of a server, which nobody has to read.

Many programs give a server a pipe for its standard error output and never look into it. So nothing waits for its reader:
what fits is written at once; the rest waits for a thread, up to `CAPACITY` bytes; what comes while that is full is left
out, and counted, and the number stands in the log when it is read again. A full disk and a reader that is gone count alike.
"""

from __future__ import annotations

import atexit
import io
import logging
import os
import select
import socket
import stat
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

CAPACITY: Final = 256 * 1024
"""Bytes that wait for a slow reader."""
PATIENCE: Final = 2.0
"""Seconds for which the end of the process waits for a reader that takes nothing."""

TryWrite = Callable[[bytes], int]
"""Writes as much as it can, and says how much that was; raises BlockingIOError where nothing fits."""


class _LogLine(NamedTuple):
    text: bytes
    entries: int
    """How many calls of `write` it stands for: those that were left out before it are named in it."""


class LogOutput:
    """Writes to a descriptor in order, whole lines or none, and never blocks the caller.

    Args:
        descriptor: Stays open.
        on_failure: Is called with the first error, in whatever thread it shows.
    """

    def __init__(self, descriptor: int, on_failure: Callable[[OSError], None] | None = None) -> None:
        self._descriptor = descriptor
        self._on_failure = on_failure
        self._try_write, self._at_once = _way_to_write(descriptor)
        self._changed = threading.Condition()
        self._queue: deque[_LogLine] = deque()
        self._waiting = 0  # bytes in the queue and in the thread's hands
        self._written = 0  # bytes that the thread has written, ever
        self._left_out = 0
        self._failing = False
        self._given_up = False
        self._thread: threading.Thread | None = None

    def write(self, text: bytes) -> None:
        """Write `text`, or have it written, or leave it out."""
        with self._changed:
            if self._waiting and self._waiting + len(text) > CAPACITY:
                self._left_out += 1
                return
            entry = _LogLine(self._notice() + text, self._left_out + 1)
            self._left_out = 0
            rest = entry.text
            if self._at_once and not self._waiting:
                rest = self._try_all(entry)
            if rest:
                self._hand_over(_LogLine(rest, entry.entries))

    def finish(self) -> None:
        """Wait until all is written, or the reader takes nothing for `PATIENCE` seconds; later calls do not wait again."""
        with self._changed:
            while self._waiting and not self._given_up:
                before = self._written
                self._changed.wait(PATIENCE)
                self._given_up = self._waiting > 0 and self._written == before

    def _notice(self) -> bytes:
        """The line that says how many were left out; empty if none was."""
        if not self._left_out:
            return b""
        now = time.strftime("%Y-%m-%d %H:%M:%S")
        said = f"{self._left_out} entries of the log were left out here: nobody read them, or they could not be written"
        return f"{now},000 {os.getpid()} WARNING timeleap: {said}\n".encode()

    def _try_all(self, entry: _LogLine) -> bytes:
        """Write what fits; returns the rest."""
        try:
            rest = entry.text[self._try_write(entry.text) :]
        except BlockingIOError:
            return entry.text
        except OSError as error:
            self._fail(entry, error)
            return b""
        self._failing = False
        return rest

    def _fail(self, entry: _LogLine, error: OSError) -> None:
        self._left_out += entry.entries
        self._failing = True
        told, self._on_failure = self._on_failure, None
        if told is not None:
            told(error)

    def _hand_over(self, entry: _LogLine) -> None:
        self._queue.append(entry)
        self._waiting += len(entry.text)
        self._changed.notify_all()
        if self._thread is None:
            # A daemon: nothing can wake a thread out of a write, and the end of the process must not wait for it.
            self._thread = threading.Thread(target=self._work, name="timeleap-log", daemon=True)
            self._thread.start()

    # In the thread

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._queue and self._left_out and not self._failing:
                    self._hand_over(_LogLine(self._notice(), self._left_out))
                    self._left_out = 0
                while not self._queue:
                    self._changed.wait()
                entry = self._queue.popleft()
            try:
                self._write_all(memoryview(entry.text))
            except OSError as error:
                with self._changed:
                    self._fail(entry, error)
            else:
                self._failing = False

    def _write_all(self, rest: memoryview) -> None:
        try:
            while rest:
                try:
                    written = self._try_write(bytes(rest))
                except BlockingIOError:
                    _wait_for_room(self._descriptor)
                    continue
                rest = rest[written:]
                self._took(written)
        finally:
            self._took(len(rest), written=False)  # of what failed, nothing waits any longer

    def _took(self, size: int, *, written: bool = True) -> None:
        with self._changed:
            self._waiting -= size
            self._written += size if written else 0
            self._changed.notify_all()


def _way_to_write(descriptor: int) -> tuple[TryWrite, bool]:
    """How to write to a descriptor, and whether that is sure not to block. Its flags stay as they are: they are those of
    every process that shares it."""
    status = os.fstat(descriptor)
    if stat.S_ISSOCK(status.st_mode) and hasattr(socket, "MSG_DONTWAIT"):
        connection = socket.socket(fileno=os.dup(descriptor))
        return lambda text: connection.send(text, socket.MSG_DONTWAIT), True
    plain = stat.S_ISREG(status.st_mode) or (stat.S_ISCHR(status.st_mode) and not os.isatty(descriptor))
    return lambda text: os.write(descriptor, text), plain or (os.name == "posix" and not os.get_blocking(descriptor))


def _wait_for_room(descriptor: int) -> None:
    if hasattr(select, "poll"):
        room = select.poll()
        room.register(descriptor, select.POLLOUT)
        room.poll()
    else:
        select.select([], [descriptor], [])


class LogHandler(logging.Handler):
    """Logs to an output."""

    def __init__(self, output: LogOutput) -> None:
        super().__init__()
        self._output = output

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = self.format(record)
        except Exception:
            self.handleError(record)
            return
        self._output.write(text.encode("utf-8", "backslashreplace") + b"\n")

    def flush(self) -> None:
        self._output.finish()


class _Stream(io.TextIOBase):
    """A text stream onto an output: warnings, tracebacks, and what libraries print."""

    def __init__(self, output: LogOutput, descriptor: int) -> None:
        self._output = output
        self._descriptor = descriptor
        self._begun = ""  # of a line

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def write(self, text: str) -> int:
        lines, end, begun = (self._begun + text).rpartition("\n")
        self._begun = begun
        if end:
            self._output.write((lines + end).encode("utf-8", "backslashreplace"))
        return len(text)

    def flush(self) -> None:
        begun, self._begun = self._begun, ""
        if begun:
            self._output.write(begun.encode("utf-8", "backslashreplace"))


def take_standard_error(*, and_output: bool = False) -> LogOutput:
    """Put an output that never blocks behind `sys.stderr`, for the rest of the process; returns it.

    Where the system can open a pipe or a terminal a second time, descriptor 2 becomes one that does not block, too: what
    writes to it without Python, in this process or in one that inherits it, does not stand still either.

    Args:
        and_output: Descriptor 1 is a copy of 2; it and `sys.stdout` stay that.
    """
    _reopen(2)
    if and_output:
        os.dup2(2, 1)
    output = LogOutput(2)
    stream = _Stream(output, 2)
    sys.stderr = stream
    if and_output:
        sys.stdout = stream
    atexit.register(output.finish)
    return output


def _reopen(descriptor: int) -> None:
    """Replace a pipe or a terminal by one opened a second time, which does not block; nothing where that cannot be done."""
    if sys.platform != "linux":
        return
    with suppress(OSError):
        if not stat.S_ISFIFO(os.fstat(descriptor).st_mode) and not os.isatty(descriptor):
            return
        flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY
        own = os.open(f"/proc/self/fd/{descriptor}", flags)
        os.dup2(own, descriptor)
        os.close(own)
