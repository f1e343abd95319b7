"""Servers, and programs of a test's own, that are forked off a process which has imported everything already.

Starting the program takes a good part of a second of processor time, nearly all of it imports, and the tests start it
more than a thousand times. A fork of a process that is ready takes a few milliseconds, and is a process like any other:
it has descriptors, an environment, signals and an exit code of its own. What is about starting and ending the program
starts the real one (`Launch.fresh`).
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from io import FileIO
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from multiprocessing.reduction import DupFd
from typing import IO, Any, NamedTuple, Protocol

from tests.support.waits import set_waits


class Running(Protocol):
    """What is used of `subprocess.Popen`."""

    pid: int
    stdin: IO[bytes] | None
    stdout: IO[bytes] | None

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; returns the exit code. Raises `subprocess.TimeoutExpired`."""
        ...

    def kill(self) -> None:
        """kill -9."""
        ...

    def send_signal(self, sig: int) -> None:
        """Send a signal."""
        ...


def possible() -> bool:
    """Whether this platform can fork."""
    return "forkserver" in multiprocessing.get_all_start_methods()


def ready_modules() -> set[str]:
    """The modules that a forked process has at its start."""
    context = _context()
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_tell_modules, args=(theirs,), daemon=True)
    process.start()
    told: set[str] = ours.recv()
    process.join()
    return told


def _tell_modules(told: Connection) -> None:
    told.send(set(sys.modules))


class Forked:
    """A forked `timeleap serve`, or Python program of the text `program`; to be used like a `subprocess.Popen` with
    `bufsize=0`."""

    def __init__(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        stdin: int | IO[Any],
        stdout: int | IO[Any],
        stderr: IO[Any],
        program: str | None = None,
    ) -> None:
        self.stdin: IO[bytes] | None = None
        self.stdout: IO[bytes] | None = None
        ours: list[int] = []
        try:
            read, write = os.pipe() if stdin == subprocess.PIPE else (_descriptor(stdin), -1)
            if write >= 0:
                self.stdin = FileIO(write, "wb")
                ours.append(read)
            back, out = os.pipe() if stdout == subprocess.PIPE else (-1, _descriptor(stdout))
            if back >= 0:
                self.stdout = FileIO(back, "rb")
                ours.append(out)
            if subprocess.DEVNULL in (stdin, stdout):
                ours += [fd for fd, asked in ((read, stdin), (out, stdout)) if asked == subprocess.DEVNULL]
            context = _context()
            self._process = context.Process(
                target=_Serving(arguments, environment, (read, out, stderr.fileno()), program), daemon=True
            )
            self._process.start()
        finally:
            for descriptor in ours:
                os.close(descriptor)
        assert self._process.pid is not None
        self.pid = self._process.pid
        self._code: int | None = None

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        if self._code is None:
            self._code = self._process.exitcode
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; returns the exit code."""
        self._process.join(timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired("timeleap serve", timeout or 0)
        return code

    def kill(self) -> None:
        """kill -9."""
        self.send_signal(9)

    def send_signal(self, sig: int) -> None:
        """Send a signal; nothing if it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, sig)


class Ended(NamedTuple):
    """How a program ended."""

    code: int
    out: str
    err: str


def run_program(program: str, *arguments: str, timeout: float, **environment: str) -> Ended:
    """Run a program as `python -W error -c` would, in the environment, with these variables set, without input."""
    with ExitStack() as stack:
        out, err = (stack.enter_context(tempfile.TemporaryFile("w+", errors="replace")) for _ in range(2))
        given = {**os.environ, **environment}
        if possible():
            code = Forked(arguments, given, subprocess.DEVNULL, out, err, program).wait(timeout)
        else:
            command = [sys.executable, "-W", "error", "-c", program, *arguments]
            code = subprocess.run(command, env=given, stdout=out, stderr=err, timeout=timeout, check=False).returncode
        out.seek(0)
        err.seek(0)
        return Ended(code, out.read(), err.read())


class _Serving:
    """What the forked process does; made in the process of the tests, called in the other."""

    def __init__(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        descriptors: tuple[int, int, int],
        program: str | None,
    ) -> None:
        self._arguments = list(arguments)
        self._program = program
        self._environment = dict(environment)
        self._descriptors = descriptors
        self._sent: list[Any] = []

    def __getstate__(self) -> dict[str, Any]:
        # Called while the process is being started: only then descriptors can be handed over.
        return {**self.__dict__, "_sent": [DupFd(descriptor) for descriptor in self._descriptors]}

    def __call__(self) -> None:
        given = [sent.detach() for sent in self._sent]
        for standard, descriptor in enumerate(given):
            os.dup2(descriptor, standard)
        for descriptor in given:
            os.close(descriptor)
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
        os.environ.clear()
        os.environ.update(self._environment)
        sys.argv = ["timeleap" if self._program is None else "-c", *self._arguments]

        from timeleap import __main__
        from timeleap.storage import durable

        durable.arm(os.environ.get(durable.ENVIRONMENT, ""))
        set_waits(os.environ)
        if self._program is None:
            sys.exit(__main__.main())
        warnings.simplefilter("error")
        exec(compile(self._program, "<program>", "exec"), {"__name__": "__main__"})


def _descriptor(given: int | IO[Any]) -> int:
    if given == subprocess.DEVNULL:
        return os.open(os.devnull, os.O_RDWR)
    return given if isinstance(given, int) else given.fileno()


@functools.cache
def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.support.warm"])
    return context
