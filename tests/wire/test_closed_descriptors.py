"""A closed session holds no descriptor, though nothing is collected."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.fixtures import StartServer
from tests.support.server import Server
from tests.support.session import Session

UNCOLLECTED = "import gc; gc.disable()"
"""Run by `sitecustomize` in the server: cycles would be freed at some time, and files with them."""
SPARE = 4
"""Descriptors that a server may have open more than before: a thread's, a listener's."""


@pytest.fixture
def uncollected(start: StartServer, tmp_path: Path) -> Server:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(UNCOLLECTED)
    return start(env={"PYTHONPATH": str(folder)})


def descriptors(server: Server) -> int:
    return len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))


def as_owner(server: Server, name: str) -> None:
    session = Session.open(server, name)
    session.checkpoint()
    session.say("x")
    session.call("context/revertTo", checkpointId=0)
    session.call("session/close")


def as_reader(server: Server, name: str) -> None:
    Session.open(server, name).call("session/close")
    session = Session.open(server, name, access="readOnly")
    session.texts()
    session.call("session/close")


def with_timelines(server: Server, name: str) -> None:
    session = Session.open(server, name)
    session.say("x")
    session.call("context/clear")
    (timeline,) = session.call("context/listTimelines")["timelines"]
    session.call("context/getHistory", timelineId=timeline["timelineId"])
    session.call("context/undo")
    session.call("session/close")


def refused(server: Server, name: str) -> None:
    folder = server.home / "sessions" / name
    (folder / "context.jsonl").mkdir(parents=True)
    server.refuse("session/open", sessionId=name)


def hold_none(server: Server, use: Callable[[Server, str], None], times: int) -> None:
    for number in range(3):
        use(server, f"warm-{number}")
    before = descriptors(server)
    for number in range(times):
        use(server, f"s-{number}")
    assert descriptors(server) <= before + SPARE


@pytest.mark.skipif(sys.platform != "linux", reason="descriptors are counted in /proc")
@pytest.mark.parametrize("use", [as_owner, as_reader, with_timelines, refused])
def test_sessions_one_after_the_other_hold_no_descriptors(
    uncollected: Server, use: Callable[[Server, str], None]
) -> None:
    hold_none(uncollected, use, 20)


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="descriptors are counted in /proc")
def test_ten_thousand_opens_and_closes_hold_no_descriptors(uncollected: Server) -> None:
    def again(server: Server, _name: str) -> None:
        session = Session.open(server, "s")
        session.call("session/close")

    hold_none(uncollected, again, 10_000)


@pytest.mark.skipif(sys.platform != "linux", reason="descriptors are counted in /proc")
def test_windows_that_attach_and_leave_hold_no_descriptors(uncollected: Server, start: StartServer) -> None:
    owner = Session.open(uncollected, "shared")
    window = start()

    def attach(_server: Server, _name: str) -> None:
        attached = Session.open(window, "shared")
        attached.say("x")
        attached.call("session/close")

    hold_none(uncollected, attach, 20)
    assert len(owner.texts()) == 23
