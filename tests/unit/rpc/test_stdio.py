from __future__ import annotations

import asyncio
import os
import select
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.holding import PATIENCE
from tests.support.turns import idle, until

from timeleap.rpc import stdio
from timeleap.rpc.stdio import Descriptors, PolledSource, StdioTransport, ThreadedSource


class Receiver(asyncio.Protocol):
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


async def at_rest(source: PolledSource | ThreadedSource) -> None:
    """Return when a source reads nothing more unless it is told to: its thread waits for permission."""
    if isinstance(source, ThreadedSource):
        permission: Any = source._may_read
        await until(lambda: permission._cond._waiters)
    await idle()


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
    if kind is ThreadedSource:  # the read was under way
        await until(lambda: receiver.data == b"onetwo")
    await at_rest(source)
    held = receiver.data
    os.write(out, b"three")
    await at_rest(source)
    assert receiver.data == held == (b"one" if kind is PolledSource else b"onetwo")
    source.resume()
    await until(lambda: receiver.data == b"onetwothree")
    source.resume()
    os.write(out, b"four")
    os.close(out)
    await asyncio.wait_for(receiver.ended.wait(), PATIENCE)
    assert receiver.data == b"onetwothreefour"
    source.pause()
    source.resume()
    await idle()
    os.close(fd)


@pytest.mark.parametrize("kind", [PolledSource, ThreadedSource])
async def test_a_source_takes_a_non_blocking_descriptor(
    kind: type[PolledSource] | type[ThreadedSource], monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = threading.Event()

    def watching(*what: Any) -> Any:
        watched.set()
        return select.select(*what)

    monkeypatch.setattr(stdio, "select", SimpleNamespace(select=watching))
    fd, out = os.pipe()
    os.set_blocking(fd, False)
    receiver = Receiver()
    source = kind(fd, receiver)
    assert source.start()
    if kind is ThreadedSource:
        await until(watched.is_set)
    await idle()
    os.write(out, b"x")
    await until(lambda: receiver.data == b"x")
    os.close(out)
    await asyncio.wait_for(receiver.ended.wait(), PATIENCE)
    os.close(fd)


async def test_a_threaded_source_reads_one_chunk_ahead_at_most() -> None:
    fd, out = os.pipe()
    receiver = Receiver()
    source = ThreadedSource(fd, receiver)
    source.pause()
    source.start()
    os.write(out, b"first")
    await until(lambda: receiver.data)
    os.write(out, b"second")
    await at_rest(source)
    assert receiver.data == b"first"
    source.resume()
    await until(lambda: receiver.data == b"firstsecond")
    os.close(out)
    await asyncio.wait_for(receiver.ended.wait(), PATIENCE)
    os.close(fd)


async def test_an_error_of_the_input_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    fd = os.open(".", os.O_RDONLY)  # reading a directory fails
    receiver = Receiver()
    ThreadedSource(fd, receiver).start()
    await asyncio.wait_for(receiver.ended.wait(), PATIENCE)
    assert "input ended with an error" in caplog.text
    os.close(fd)


async def test_a_file_is_read_though_it_cannot_be_watched(tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_bytes(b"x" * 1_000_000)
    fd, out = os.open(path, os.O_RDONLY), os.open(os.devnull, os.O_WRONLY)
    receiver = Receiver()
    transport = StdioTransport(Descriptors(fd, out), receiver)
    transport.start()
    await asyncio.wait_for(receiver.ended.wait(), PATIENCE)
    assert len(receiver.data) == 1_000_000
    transport.close()
    assert transport.is_closing()
    os.close(fd)
    os.close(out)
