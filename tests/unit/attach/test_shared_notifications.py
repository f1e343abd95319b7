"""Notifications to several windows: one frame for all of a framing, written together, and before later replies."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.turns import idle
from tests.unit.rpc.edge import FakeTransport
from tests.unit.rpc.fake_server import FakeService

from timeleap.attach import listener, sockets
from timeleap.attach.listener import AttachedConnection, SharedNotifications
from timeleap.rpc.codec import encode
from timeleap_protocol.framing import FrameReader, Framing

CHANGE = "context/didChange"
PAUSE = 0.05


class Window:
    """A connection of another process, and what was written to it."""

    def __init__(self, shared: SharedNotifications, framing: Framing) -> None:
        self.framing = framing
        self.transport = FakeTransport()
        self.connection = AttachedConnection(FakeService, shared)
        self.connection.connection_made(self.transport)
        self.connection.data_received(framing.wrap(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "none"}).encode()))

    @property
    def received(self) -> list[Any]:
        frames = FrameReader().feed(self.transport.written)
        return [json.loads(frame) for frame in frames if isinstance(frame, bytes)]


@pytest.fixture
async def windows(monkeypatch: pytest.MonkeyPatch) -> list[Window]:
    """Three windows that have been refused a request each, in two framings."""
    monkeypatch.setattr(sockets, "has_left", lambda transport: False)
    shared = SharedNotifications()
    windows = [Window(shared, framing) for framing in (Framing.LSP, Framing.LSP, Framing.NDJSON)]
    await idle()
    for window in windows:
        assert [reply["error"]["code"] for reply in window.received] == [-32002]
        window.transport.written, window.transport.writes = b"", 0
    return windows


def tell(windows: list[Window], number: int) -> None:
    params = {"head": f"h{number}"}
    for window in windows:
        window.connection.notify(CHANGE, params)


def heads(window: Window) -> list[str]:
    return [message["params"]["head"] for message in window.received if message.get("method") == CHANGE]


async def test_each_hears_everything_in_its_framing_and_in_order(windows: list[Window]) -> None:
    for number in range(3):
        tell(windows, number)
    assert [window.transport.writes for window in windows] == [0, 0, 0]
    await idle()
    assert [heads(window) for window in windows] == [["h0", "h1", "h2"]] * 3
    assert [window.transport.writes for window in windows] == [1, 1, 1]


async def test_a_frame_is_made_once_for_all_windows_of_a_framing(
    windows: list[Window], monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[Any] = []

    def counted(message: Any) -> bytes:
        encoded.append(message)
        return encode(message)

    monkeypatch.setattr(listener, "encode", counted)
    tell(windows, 1)
    tell(windows, 2)
    await idle()
    assert [message["params"]["head"] for message in encoded] == ["h1", "h1", "h2", "h2"]


async def test_after_a_write_comes_a_pause_and_then_all_of_it(
    windows: list[Window], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "PAUSE", 1e9)
    monkeypatch.setattr(listener, "LONGEST_PAUSE", PAUSE)
    tell(windows, 0)
    await idle()
    tell(windows, 1)
    await idle()
    tell(windows, 2)
    assert [heads(window) for window in windows] == [["h0"]] * 3
    while heads(windows[0]) == ["h0"]:
        await idle()
    assert [heads(window) for window in windows] == [["h0", "h1", "h2"]] * 3
    assert [window.transport.writes for window in windows] == [2, 2, 2]


async def test_a_reply_takes_along_what_was_told_before_it(
    windows: list[Window], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "PAUSE", 1e9)
    monkeypatch.setattr(listener, "LONGEST_PAUSE", 60)
    tell(windows, 0)
    await idle()
    tell(windows, 1)
    asking = windows[0]
    request = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "none"}).encode()
    asking.connection.data_received(asking.framing.wrap(request))
    await idle()
    assert [message.get("method", message.get("id")) for message in asking.received] == [CHANGE, CHANGE, 2]
    assert [heads(window) for window in windows[1:]] == [["h0"]] * 2


async def test_who_is_gone_is_passed_over(windows: list[Window]) -> None:
    tell(windows, 0)
    windows[1].connection.connection_lost(None)
    tell(windows, 1)
    await idle()
    assert [heads(window) for window in windows] == [["h0", "h1"], [], ["h0", "h1"]]


async def test_who_does_not_read_gets_it_when_it_reads_again(windows: list[Window]) -> None:
    slow = windows[2].connection
    tell(windows, 0)
    slow.pause_writing()
    tell(windows, 1)
    await idle()
    assert [heads(window) for window in windows] == [["h0", "h1"], ["h0", "h1"], []]
    slow.resume_writing()
    await idle()
    assert heads(windows[2]) == ["h0", "h1"]
