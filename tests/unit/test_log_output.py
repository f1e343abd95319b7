"""The log: never waited for, bounded, and what was left out is counted."""

from __future__ import annotations

import logging
import os
import re
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.descriptors import closed_at_the_end

from timeleap import log_output
from timeleap.log_output import CAPACITY, LogHandler, LogOutput

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="pipes that do not block"),
    # An output lasts as long as its process, and so does its copy of a socket.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
LINES = 2 * CAPACITY // 100
LEFT_OUT = re.compile(r"WARNING timeleap: (\d+) entries of the log were left out here")


def line(number: int) -> bytes:
    return f"{number:<98}|\n".encode()


def pipe(*, blocking: bool) -> tuple[int, int]:
    reading, writing = os.pipe()
    os.set_blocking(writing, blocking)
    return reading, writing


def sockets() -> tuple[int, int]:
    ours, theirs = socket.socketpair()
    return ours.detach(), theirs.detach()


KINDS: dict[str, Callable[[], tuple[int, int]]] = {
    "a pipe that does not block": lambda: pipe(blocking=False),
    "a pipe that blocks": lambda: pipe(blocking=True),
    "a socket": sockets,
}


@pytest.fixture(params=KINDS)
def ends(request: pytest.FixtureRequest) -> Iterator[tuple[int, int]]:
    """What is read from, and what is written to."""
    reading, writing = KINDS[request.param]()
    with closed_at_the_end(reading):  # the other end stays: a thread may still have something for it
        yield reading, writing


def read_until(reading: int, last: bytes) -> list[str]:
    found = b""
    while last not in found:
        data = os.read(reading, 1 << 16)
        assert data, found[-1000:]
        found += data
    return found.decode().splitlines()


def accounted_for(told: bytes) -> tuple[list[int], int]:
    """The numbers of the lines that came, and how many were left out."""
    lines = told.decode().splitlines()
    numbers = [int(each[:90]) for each in lines if each.endswith("|")]
    return numbers, sum(int(found[1]) for each in lines if (found := LEFT_OUT.search(each)))


def test_nobody_reads_and_then_somebody_does(ends: tuple[int, int]) -> None:
    reading, writing = ends
    output = LogOutput(writing)
    for number in range(LINES):
        output.write(line(number))
    told, left_out = b"", 0
    numbers: list[int] = []
    while len(numbers) + left_out < LINES:  # told without another line to be logged
        told += os.read(reading, 1 << 16)
        numbers, left_out = accounted_for(told)
    assert left_out and len(numbers) >= CAPACITY // 100  # and those that are in the pipe, if the thread began in time
    assert numbers == sorted(set(numbers)) and len(numbers) + left_out == LINES
    output.write(line(LINES))
    assert read_until(reading, line(LINES)) == [line(LINES).decode().rstrip("\n")]


def test_a_slow_reader_gets_all_in_order(ends: tuple[int, int]) -> None:
    reading, writing = ends
    output = LogOutput(writing)
    told: list[str] = []
    reader = threading.Thread(target=lambda: told.extend(read_until(reading, line(1999))))
    for number in range(1000):
        output.write(line(number))
    reader.start()
    for number in range(1000, 2000):
        output.write(line(number))
    output.finish()
    reader.join(60)
    assert [int(each[:90]) for each in told] == list(range(2000))


def test_the_end_waits_for_a_reader_only_while_it_reads(ends: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_output, "PATIENCE", 0.05)
    output = LogOutput(ends[1])
    for number in range(LINES):
        output.write(line(number))
    output.finish()
    monkeypatch.setattr(log_output, "PATIENCE", 3600)
    output.finish()  # does not wait once more


def test_a_reader_that_is_gone(ends: tuple[int, int]) -> None:
    reading, writing = ends
    output = LogOutput(writing)
    os.close(reading)
    for number in range(LINES):
        output.write(line(number))
    output.finish()


def test_a_pipe_that_is_read_again_tells_what_was_left_out(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    writing = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    output = LogOutput(writing)
    output.write(b"one\n")
    os.close(reading)
    output.write(b"two\n")
    output.write(b"three\n")
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    output.write(b"four\n")
    said = os.read(reading, 1000).decode().splitlines()
    assert [found[1] for each in said if (found := LEFT_OUT.search(each))] == ["2"]
    assert said[-1] == "four"
    os.close(reading)
    os.close(writing)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full")
def test_a_full_disk_is_told_once() -> None:
    told: list[OSError] = []
    full = os.open("/dev/full", os.O_WRONLY)
    output = LogOutput(full, told.append)
    for number in range(100):
        output.write(line(number))
    output.finish()
    assert [error.strerror for error in told] == ["No space left on device"]
    os.close(full)


def test_a_file_gets_all_at_once(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb") as file:
        output = LogOutput(file.fileno())
        for number in range(LINES):
            output.write(line(number))
        assert path.read_bytes() == b"".join(map(line, range(LINES)))


def test_what_python_and_libraries_print_does_not_wait(ends: tuple[int, int]) -> None:
    reading, writing = ends
    output = LogOutput(writing)
    stream = log_output._Stream(output, writing)
    print("one", "line", file=stream)
    print("begun", end="", file=stream)
    stream.flush()
    print(" and ended \udcff", file=stream)
    handler = LogHandler(output)
    handler.emit(logging.LogRecord("name", logging.INFO, "", 0, "record %s", ("\udcff",), None))
    output.write(b"end\n")
    expected = ["one line", "begun and ended \\udcff", "record \\udcff", "end"]
    assert read_until(reading, b"end\n") == expected
    for _ in range(LINES):
        print("x" * 99, file=stream)
    assert stream.writable() and not stream.isatty()


def test_a_record_within_a_record(ends: tuple[int, int]) -> None:
    """A finaliser may log while the thread that runs it logs."""
    reading, writing = ends
    output = LogOutput(writing)
    with output._changed:
        output.write(b"inner\n")
    output.write(b"outer\n")
    assert read_until(reading, b"outer\n") == ["inner", "outer"]


@pytest.mark.skipif(sys.platform != "linux", reason="descriptors that can be opened anew")
def test_a_terminal_that_is_held_does_not_hold_what_writes_past_python() -> None:
    master, slave = os.openpty()
    log_output._reopen(slave)
    assert not os.get_blocking(slave)
    assert os.get_blocking(master)
    os.close(master)
    os.close(slave)
