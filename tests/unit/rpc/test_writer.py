from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.descriptors import closed_at_the_end
from tests.support.holding import PATIENCE
from tests.support.turns import Clock, idle, until

from timeleap.rpc.stdio import PIPE, DescriptorWriter


class Listener(asyncio.BaseProtocol):
    def __init__(self) -> None:
        self.told: list[str] = []

    def pause_writing(self) -> None:
        self.told.append("pause")

    def resume_writing(self) -> None:
        self.told.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.told.append("lost")


Ends = tuple[int, int]


@pytest.fixture(params=["pipe", "socket"])
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    """A descriptor to read from, and one to write to."""
    if request.param == "pipe":
        fds = os.pipe()
    else:
        one, other = socket.socketpair()
        fds = one.detach(), other.detach()
    with closed_at_the_end(*fds):
        yield fds


async def collect(fd: int, length: int) -> bytes:
    def read() -> bytes:
        data = b""
        while len(data) < length:
            piece = os.read(fd, 1 << 20)
            if not piece:
                break
            data += piece
        return data

    return await asyncio.wait_for(asyncio.to_thread(read), PATIENCE)


async def test_what_fits_is_written_at_once_and_without_a_thread(ends: Ends) -> None:
    listener = Listener()
    writer = DescriptorWriter(ends[1], listener)
    threads = threading.active_count()
    for n in range(10):
        writer.write(b"%d" % n * 100)
    assert os.read(ends[0], 5000) == b"".join(b"%d" % n * 100 for n in range(10))
    assert threading.active_count() == threads
    await writer.drain()
    writer.close()
    assert listener.told == []


async def test_a_large_write_to_an_empty_pipe_needs_no_thread() -> None:
    if sys.platform != "linux":
        return
    reader, fd = os.pipe()
    writer = DescriptorWriter(fd, Listener())
    writer.writelines([b"x", b"x" * (PIPE - 2), b"x"])
    assert writer._thread is None
    writer.write(b"y")
    assert writer._thread is not None
    assert await collect(reader, PIPE + 1) == b"x" * PIPE + b"y"
    await writer.drain()
    writer.close()
    os.close(reader)
    os.close(fd)


async def test_a_reader_that_does_not_read_blocks_nothing_and_loses_nothing(ends: Ends) -> None:
    listener = Listener()
    writer = DescriptorWriter(ends[1], listener)
    pieces = [bytes([65 + n % 26]) * (n * 997 % 70_000) for n in range(400)]
    for piece in pieces:
        writer.write(piece)
    assert listener.told == ["pause"]
    assert await collect(ends[0], sum(map(len, pieces))) == b"".join(pieces)
    await asyncio.wait_for(writer.drain(), PATIENCE)
    assert listener.told == ["pause", "resume"]
    writer.write(b"end")
    assert await collect(ends[0], 3) == b"end"
    writer.close()


async def test_nothing_overtakes_what_is_waiting(ends: Ends) -> None:
    writer = DescriptorWriter(ends[1], Listener())
    writer.write(b"x" * 1_000_000)
    read, expected = b"", b"x" * 1_000_000
    for number in range(200):
        read += os.read(ends[0], 4096)  # there is room now, for whoever comes first
        piece = b"%04d" % number
        writer.write(piece)
        expected += piece
    read += await collect(ends[0], len(expected) - len(read))
    assert read == expected
    await asyncio.wait_for(writer.drain(), PATIENCE)
    writer.close()


async def test_what_comes_at_the_last_moment_is_waited_for_too(ends: Ends) -> None:
    writer = DescriptorWriter(ends[1], Listener())
    eased, late = writer._eased, b"late" * 1_000_000

    def eased_and_more() -> None:
        eased()
        writer._eased = eased  # type: ignore[method-assign]
        writer.write(late)

    writer._eased = eased_and_more  # type: ignore[method-assign]
    early = b"early" * 300_000
    writer.write(early)
    draining = asyncio.create_task(writer.drain())
    read = await collect(ends[0], len(early))
    await until(lambda: writer._eased == eased)
    await idle()
    assert not draining.done()
    assert read + await collect(ends[0], len(early + late) - len(read)) == early + late
    await asyncio.wait_for(draining, PATIENCE)
    writer.close()


async def test_a_reader_that_is_gone(ends: Ends) -> None:
    listener = Listener()
    writer = DescriptorWriter(ends[1], listener)
    os.close(ends[0])
    writer.write(b"x")
    writer.write(b"x")
    await writer.drain()
    assert listener.told == ["lost"]
    writer.close()


async def test_a_reader_that_goes_while_much_is_waiting(ends: Ends) -> None:
    listener = Listener()
    writer = DescriptorWriter(ends[1], listener)
    writer.write(b"x" * 8_000_000)
    await collect(ends[0], 1_000_000)
    os.close(ends[0])
    await asyncio.wait_for(writer.drain(), PATIENCE)
    assert listener.told == ["pause", "lost"]
    writer.write(b"more")
    writer.close()


async def test_in_a_hurry_a_reader_that_reads_is_waited_for(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    listener = Listener()
    writer = DescriptorWriter(ends[1], listener)
    writer.write(b"x" * 2_000_000)
    writer.hurry(0.2)
    left = 2_000_000
    while left:
        written, piece = writer._written, min(left, 200_000)
        left -= len(await collect(ends[0], piece))
        await until(lambda: writer._written > written or not writer._waiting)  # noqa: B023
        await clock.advance(0.2)
    await writer.drain()
    assert "lost" not in listener.told
    writer.close()


async def test_in_a_hurry_a_reader_that_does_not_read_counts_as_gone(ends: Ends) -> None:
    listener = Listener()
    writer = DescriptorWriter(ends[1], listener)
    writer.write(b"x" * 2_000_000)
    writer.hurry(0.05)
    await asyncio.wait_for(writer.drain(), PATIENCE)
    assert listener.told == ["lost"]
    os.close(ends[0])  # lets the thread go


async def test_a_descriptor_somebody_made_non_blocking(ends: Ends) -> None:
    os.set_blocking(ends[1], False)
    writer = DescriptorWriter(ends[1], Listener())
    writer.write(b"x" * 3_000_000)
    assert await collect(ends[0], 3_000_000) == b"x" * 3_000_000
    await asyncio.wait_for(writer.drain(), PATIENCE)
    writer.close()


async def test_files_and_the_null_device_never_block(tmp_path: Path) -> None:
    for path in (tmp_path / "out", Path(os.devnull)):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT)
        writer = DescriptorWriter(fd, Listener())
        writer.write(b"x" * 10_000_000)
        assert writer._thread is None
        writer.close()
        os.close(fd)
    assert (tmp_path / "out").stat().st_size == 10_000_000


async def test_a_full_disk_is_a_reader_that_is_gone() -> None:
    if not os.path.exists("/dev/full"):
        return
    fd = os.open("/dev/full", os.O_WRONLY)
    listener = Listener()
    writer = DescriptorWriter(fd, listener)
    writer.write(b"x")
    await asyncio.wait_for(writer.drain(), PATIENCE)
    assert listener.told == ["lost"]
    writer.close()
    os.close(fd)
