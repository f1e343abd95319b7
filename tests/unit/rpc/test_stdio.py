from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from timeleap.rpc.stdio import Descriptors, PolledSource, StdioTransport, ThreadedSource


class Receiver:
    def __init__(self) -> None:
        self.data = b""
        self.ended = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        assert not self.ended.is_set()
        self.data += data

    def eof_received(self) -> None:
        self.ended.set()

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...

    def connection_lost(self, exc: Exception | None) -> None: ...


async def until(condition: object) -> None:
    async with asyncio.timeout(5):
        while not condition():  # type: ignore[operator]
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("kind", [PolledSource, ThreadedSource])
async def test_a_source_delivers_pauses_and_ends(kind: type[PolledSource] | type[ThreadedSource]) -> None:
    fd, out = os.pipe()
    receiver = Receiver()
    source = kind(fd, receiver)
    assert source.start()
    os.write(out, b"one")
    await until(lambda: receiver.data == b"one")
    source.pause()
    os.write(out, b"two")
    await asyncio.sleep(0.05)
    held = receiver.data  # a thread may have had one chunk on its way
    os.write(out, b"three")
    await asyncio.sleep(0.05)
    assert receiver.data == held
    source.resume()
    await until(lambda: receiver.data == b"onetwothree")
    source.resume()
    os.write(out, b"four")
    os.close(out)
    await asyncio.wait_for(receiver.ended.wait(), 5)
    assert receiver.data == b"onetwothreefour"
    source.pause()
    source.resume()
    await asyncio.sleep(0.02)
    os.close(fd)


@pytest.mark.parametrize("kind", [PolledSource, ThreadedSource])
async def test_a_source_takes_a_non_blocking_descriptor(kind: type[PolledSource] | type[ThreadedSource]) -> None:
    fd, out = os.pipe()
    os.set_blocking(fd, False)
    receiver = Receiver()
    source = kind(fd, receiver)
    assert source.start()
    await asyncio.sleep(0.02)
    os.write(out, b"x")
    await until(lambda: receiver.data == b"x")
    os.close(out)
    await asyncio.wait_for(receiver.ended.wait(), 5)
    os.close(fd)


async def test_a_threaded_source_reads_one_chunk_ahead_at_most() -> None:
    fd, out = os.pipe()
    receiver = Receiver()
    source = ThreadedSource(fd, receiver)
    source.pause()
    source.start()
    os.write(out, b"first")
    await asyncio.sleep(0.05)
    os.write(out, b"second")
    await asyncio.sleep(0.05)
    assert receiver.data == b"first"
    source.resume()
    await until(lambda: receiver.data == b"firstsecond")
    os.close(out)
    await asyncio.wait_for(receiver.ended.wait(), 5)
    os.close(fd)


async def test_an_error_of_the_input_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    fd = os.open(".", os.O_RDONLY)  # reading a directory fails
    receiver = Receiver()
    ThreadedSource(fd, receiver).start()
    await asyncio.wait_for(receiver.ended.wait(), 5)
    assert "input ended with an error" in caplog.text
    os.close(fd)


async def test_a_file_is_read_though_it_cannot_be_watched(tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_bytes(b"x" * 1_000_000)
    fd, out = os.open(path, os.O_RDONLY), os.open(os.devnull, os.O_WRONLY)
    receiver = Receiver()
    transport = StdioTransport(Descriptors(fd, out), receiver)
    transport.start()
    await asyncio.wait_for(receiver.ended.wait(), 5)
    assert len(receiver.data) == 1_000_000
    transport.close()
    assert transport.is_closing()
    os.close(fd)
    os.close(out)
