"""A standard error output that nobody reads, that is gone or full: requests go on, and the end of the input ends the server."""

from __future__ import annotations

import json
import os
import pty
import select
import socket
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.descriptors import closed_at_the_end
from tests.support.fixtures import StartServer
from tests.support.forked import Forked
from tests.support.holding import wait_until
from tests.support.server import PATIENCE, Launch
from tests.support.session import Session

if sys.platform != "linux":
    pytest.skip("pipes of a chosen size, terminals", allow_module_level=True)

import fcntl

REQUESTS = 400
"""So many that what is logged of them is several times what a pipe of one page, or a terminal, holds."""


@contextmanager
def ended(*descriptors: int) -> Iterator[int]:
    """The last of the descriptors; all are closed at the end."""
    with closed_at_the_end(*descriptors):
        yield descriptors[-1]


def unread_pipe() -> Any:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    return ended(reading, writing)


def unread_socket() -> Any:
    ours, theirs = (end.detach() for end in socket.socketpair())
    copy = socket.socket(fileno=os.dup(theirs))
    copy.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    copy.close()
    return ended(ours, theirs)


def pipe_without_reader() -> Any:
    reading, writing = os.pipe()
    os.close(reading)
    return ended(writing)


def full_disk() -> Any:
    return ended(os.open("/dev/full", os.O_WRONLY))


def unread_terminal() -> Any:
    return ended(*pty.openpty())


def held_terminal() -> Any:
    """A terminal at which somebody pressed Ctrl-S."""
    master, slave = pty.openpty()
    termios.tcflow(slave, termios.TCOOFF)
    return ended(master, slave)


KINDS: dict[str, Callable[[], Any]] = {
    "a pipe that nobody reads": unread_pipe,
    "a socket that nobody reads": unread_socket,
    "a pipe whose reader is gone": pipe_without_reader,
    "a full disk": full_disk,
    "a terminal that nobody reads": unread_terminal,
    "a terminal that is held": held_terminal,
}


def served(process: Any, number: int) -> list[dict[str, Any]]:
    """The replies to so many requests, each sent when the one before is answered; the input ends behind them."""
    requests: list[tuple[str, dict[str, Any]]] = [("initialize", {}), ("session/open", {"sessionId": "s"})]
    message = {"role": "user", "content": "x"}
    requests += [("context/appendMessage", {"sessionId": "s", "message": message})] * number
    found: list[dict[str, Any]] = []
    rest = b""
    for at, (method, params) in enumerate(requests):
        process.stdin.write(
            json.dumps({"jsonrpc": "2.0", "id": at, "method": method, "params": params}).encode() + b"\n"
        )
        process.stdin.flush()
        while len(found) <= at:
            ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
            assert ready, f"nothing is answered after {at} requests"
            data = os.read(process.stdout.fileno(), 1 << 16)
            assert data, f"the server ended after {at} requests"
            *lines, rest = (rest + data).split(b"\n")
            found += [reply for reply in map(json.loads, lines) if "id" in reply]
    process.stdin.close()
    assert process.wait(PATIENCE) == 0
    process.stdout.close()
    return found


def forked(serving: Launch, errors: int) -> Forked:
    with os.fdopen(errors, "wb", closefd=False) as stream:
        return Forked(serving.arguments(), serving.environment(), subprocess.PIPE, subprocess.PIPE, stream)


def launch(home: Path) -> Launch:
    started = Launch(home, "ndjson", args=("--log-level", "debug"))
    started.user.mkdir(parents=True, exist_ok=True)
    return started


@pytest.mark.parametrize("kind", KINDS)
def test_requests_are_answered_whatever_takes_the_log(tmp_path: Path, kind: str) -> None:
    serving = launch(tmp_path / "home")
    with KINDS[kind]() as errors:
        process = forked(serving, errors)
        assert all("result" in reply for reply in served(process, REQUESTS))


def test_a_slow_reader_holds_nothing_up_and_misses_nothing(tmp_path: Path) -> None:
    serving = launch(tmp_path / "home")
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    with ended(reading):
        process = subprocess.Popen(
            serving.command(), stdin=-1, stdout=-1, stderr=writing, env=serving.environment(), bufsize=0
        )  # a process of its own: what it does at its end is a part of this
        os.close(writing)
        said = bytearray()
        replies = served(_Read(process, reading, said), 100)
        assert all("result" in reply for reply in replies)
        assert said.count(b"context/appendMessage s ok") == 100


class _Read:
    """A process whose standard error output is read at its end only."""

    def __init__(self, process: Any, errors: int, said: bytearray) -> None:
        self.stdin, self.stdout = process.stdin, process.stdout
        self._process, self._errors, self._said = process, errors, said

    def wait(self, timeout: float) -> int:
        while data := os.read(self._errors, 1000):
            self._said += data
        return int(self._process.wait(timeout))


PRINTING = """
import faulthandler, os, subprocess, sys, threading, warnings
from timeleap.log_output import take_standard_error

output = take_standard_error(and_output=True)
faulthandler.enable()
for number in range(200):
    warnings.warn(f"a warning {number}" + "x" * 200, stacklevel=1)
    print("printed" + "x" * 100)
    thread = threading.Thread(target=lambda: 1 / 0)  # its traceback
    thread.start()
    thread.join()
for number in range(20):
    faulthandler.dump_traceback(file=2)
child = "import os\\ntry: os.write(2, b'x' * 9999)\\nexcept BlockingIOError: pass"
subprocess.run([sys.executable, "-c", child], check=True)
os.write(int(sys.argv[1]), b"done")
"""


def test_warnings_tracebacks_and_children_wait_for_no_reader_either(tmp_path: Path) -> None:
    told, tell = os.pipe()
    with unread_pipe() as errors:
        command = [sys.executable, "-c", PRINTING, str(tell)]
        process = subprocess.Popen(command, stderr=errors, stdout=errors, pass_fds=[tell])
        os.close(tell)
        assert os.read(told, 100) == b"done"
        assert process.wait(PATIENCE) == 0
    os.close(told)


def test_a_window_that_does_not_read_its_replies_holds_no_other_window_up(
    start: StartServer, start_at: StartServer, home: Path
) -> None:
    window = start()
    session = Session.open(window, "s")
    session.say("x" * 1_000_000)
    session.call("session/close")
    silent = start_at(home, reading=False)
    silent.start("initialize")
    silent.start("session/open", sessionId="s")
    replies = [
        silent.start("context/getHistory", sessionId="s") for _ in range(50)
    ]  # far more than is ever held for it
    wait_until(lambda: "owner" in window.call("session/list")["sessions"][0])
    attached = session.reopen(window)
    for number in range(20):
        attached.say(f"{number}")
    assert len(attached.texts()) == 21
    elsewhere = Session.open(window, "elsewhere")
    elsewhere.say("one")
    assert elsewhere.texts() == ["one"]
    silent.start_reading()
    assert all(len(reply.result()["messages"]) == 1 for reply in replies[:2])
