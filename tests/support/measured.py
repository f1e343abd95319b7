"""A server in a thread of this process for cases over the wire: its lines count where coverage is measured."""

from __future__ import annotations

import os
import socket
import subprocess
from typing import IO, Any
from unittest import mock

from tests.support.forked import Running
from tests.support.inside import server_thread
from tests.support.server import Launch


class _Output:
    """The reading end of a connection, as `Server` uses the output of a process."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def fileno(self) -> int:
        return self._connection.fileno()

    def close(self) -> None:
        self._connection.close()


class _Input:
    """The writing end of it."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def write(self, data: memoryview) -> int:
        return self._connection.send(data)

    def close(self) -> None:
        try:
            self._connection.shutdown(socket.SHUT_WR)
        except OSError:
            return


class Thread:
    """A server that answers to the names of a process."""

    pid = os.getpid()

    def __init__(self, launch: Launch) -> None:
        ours, theirs = socket.socketpair()
        self.stdin, self.stdout = _Input(ours), _Output(ours)
        self._thread = server_thread(launch.home, launch.environment(), theirs)
        self._thread.start()

    def poll(self) -> int | None:
        return self._thread.code

    def wait(self, timeout: float | None = None) -> int:
        self._thread.join(timeout)
        if self._thread.code is None:
            raise subprocess.TimeoutExpired("timeleap", timeout or 0)
        return self._thread.code

    def kill(self) -> None:
        self.stdin.close()

    def send_signal(self, number: int) -> None:
        raise AssertionError("a server in a thread gets no signals")


class MeasuredLaunch(Launch):
    """A launch of a server in this process."""

    def run(self, stdin: int | IO[Any], stdout: int | IO[Any], stderr: IO[Any]) -> Running:
        del stdin, stdout, stderr
        made: Any = Thread(self)
        running: Running = made
        return running


def in_environment(launch: Launch) -> Any:
    """Meanwhile this process has the environment of a server."""
    return mock.patch.dict(os.environ, launch.environment())
