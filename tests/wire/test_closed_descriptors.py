"""A closed session holds no descriptor, though nothing is collected."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.fixtures import StartServer
from tests.support.holding import wait_until
from tests.support.server import Message, Server
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
    wait_until(lambda: descriptors(server) <= before + SPARE)


@pytest.mark.skipif(sys.platform != "linux", reason="descriptors are counted in /proc")
@pytest.mark.parametrize("use", [as_owner, as_reader, with_timelines, refused])
def test_sessions_one_after_the_other_hold_no_descriptors(
    uncollected: Server, use: Callable[[Server, str], None]
) -> None:
    hold_none(uncollected, use, 20)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="descriptors are counted in /proc")
def test_ten_thousand_opens_and_closes_hold_no_descriptors(uncollected: Server) -> None:
    def a_hundred(server: Server, _name: str) -> None:
        asked = [
            server.start(method, sessionId=f"{number}")
            for number in range(100)
            for method in ("session/open", "session/close")
        ]
        for each in asked:  # together: nobody waits for one reply after the other
            each.result()

    hold_none(uncollected, a_hundred, 100)


class Windows:
    """A session whose owner's descriptors are counted, and other processes that look at it or change it."""

    def __init__(self, owner: Server, start: StartServer) -> None:
        self.session, self.start, self.staying = Session.open(owner, "shared"), start, start()

    def attach(self, _server: Server, _name: str) -> None:
        """Change it from a process that stays."""
        attached = Session.open(self.staying, "shared")
        attached.say("x")
        attached.call("session/close")

    def follow(self, _server: Server, _name: str) -> None:
        """Read it in a process that stays, and hear of a change."""
        reader = Session.open(self.staying, "shared", access="readOnly")
        mark = len(self.staying.received)
        self.session.say("x")
        self.staying.heard("context/didChange", since=mark, sessionId="shared")
        reader.call("session/close")

    def come_and_go(self, _server: Server, name: str) -> None:
        """Change it from a process that ends: in order, with the session open, or killed."""
        window = self.start()
        attached = Session.open(window, "shared")
        attached.say("x")
        how = int(name.rpartition("-")[2]) % 3
        if how == 0:
            attached.call("session/close")
        if how == 1:
            window.kill()
        else:
            assert window.finish() == 0


WAYS = [Windows.attach, Windows.follow, Windows.come_and_go]


@pytest.mark.skipif(sys.platform != "linux", reason="descriptors are counted in /proc")
@pytest.mark.parametrize(
    ("way", "times"),
    [*((way, 6) for way in WAYS), *(pytest.param(way, 30, marks=pytest.mark.long) for way in WAYS)],
)
def test_windows_that_come_and_go_hold_no_descriptors(
    uncollected: Server, start: StartServer, way: Callable[[Windows, Server, str], None], times: int
) -> None:
    windows = Windows(uncollected, start)
    hold_none(uncollected, functools.partial(way, windows), times)
    assert len(windows.session.history()) == times + 3
    refuse_growth_of(windows.staying, lambda: way(windows, uncollected, "0"), 3)


# What is refused, and what begins and ends by itself


class Place:
    """A server, a session of it that stays open, and a folder whose files it saves.

    Attributes:
        folder: Where bad input lies.
    """

    def __init__(self, server: Server, folder: Path) -> None:
        self.server, self.folder = server, folder
        root = folder / "root"
        root.mkdir(parents=True)
        (root / "a").write_text("1")
        (folder / "nonsense").write_bytes(b"nonsense")
        (folder / "torn.zip").write_bytes(b"PK\x03\x04" + bytes(100))
        self.kept = Session.open(server, "kept", files={"mode": "checkpoint", "roots": [root.as_uri()]})
        self.made = self.kept.checkpoint()
        self.kept.say("x")
        for name, broken in (("state", "state.json"), ("meta", "timeleap.json"), ("log", "context.jsonl")):
            (server.home / "sessions" / f"bad-{name}" / broken).mkdir(parents=True)
        (server.home / "sessions" / "bad-meta" / "context.jsonl").touch()

    def ask(self, method: str, **params: Any) -> None:
        known(self.server.start(method, **params).reply())

    def ask_kept(self, method: str, **params: Any) -> None:
        known(self.kept.start(method, **params).reply())


def known(reply: Message) -> None:
    """Insist that a request was understood."""
    assert reply.get("error", {}).get("code") not in (-32601, -32603), reply


def opened_and_left(place: Place, **params: Any) -> None:
    reply = place.server.start("session/open", **params).reply()
    if "result" in reply:
        place.ask("session/close", sessionId=reply["result"]["sessionId"])


def exported(place: Place, form: str) -> None:
    place.ask_kept("session/export", format=form, path=str(place.folder / f"kept.{form}"), overwrite=True)


def refused_imports(place: Place) -> None:
    for name in ("missing", "nonsense", "torn.zip", "root"):
        place.ask("session/import", path=str(place.folder / name), sessionId="imported")


def refused_openings(place: Place) -> None:
    for name in ("state", "meta", "log"):
        opened_and_left(place, sessionId=f"bad-{name}")
    opened_and_left(place, sessionId="never", create=False)
    opened_and_left(place, sessionId="../x")
    for name in ("missing", "nonsense", "root"):
        opened_and_left(place, path=str(place.folder / name))


def refused_forks(place: Place) -> None:
    place.ask_kept("session/fork", newSessionId="kept")
    place.ask_kept("session/fork", newSessionId="../x")
    place.ask_kept("session/fork", newSessionId="f", checkpointUid="c9-none")
    place.ask_kept("session/fork", newSessionId="f", timelineId="none")


def refused_exports(place: Place) -> None:
    for path in ("missing/x", "root", "nonsense", "root/../.."):
        place.ask_kept("session/export", format="native", path=str(place.folder / path))
    place.ask_kept("session/export", format="unheard of", path=str(place.folder / "x"))


def refused_reading(place: Place) -> None:
    for method in ("context/getHistory", "context/listCheckpoints", "context/restoreTimeline"):
        place.ask_kept(method, timelineId="none")
    place.ask_kept("context/revertTo", checkpointUid="c9-none")
    place.ask_kept("session/verify", timelineId="none")
    place.ask_kept("context/search", query="(", regex=True)


def saved_and_put_back(place: Place) -> None:
    target = {"snapshot": place.made["files"]["snapshot"]}
    place.ask_kept("files/snapshot")
    place.ask_kept("files/diff", **{"from": target, "to": {}})
    place.ask_kept("files/read", **target, path="a")
    place.ask_kept("files/restore", to=target)
    place.ask_kept("files/list")


def refused_files(place: Place) -> None:
    target = {"snapshot": place.made["files"]["snapshot"]}
    place.ask_kept("files/read", **target, path="none")
    place.ask_kept("files/read", snapshot="f9-000000000000", path="a")
    place.ask_kept("files/restore", to={"snapshot": "f9-000000000000"})
    place.ask_kept("files/restore", to=target, expectedFiles="f9-000000000000")
    place.ask_kept("files/diff", **{"from": {"checkpointUid": "c9-none"}, "to": {}})
    root = place.folder / "root"
    root.rename(place.folder / "away")
    for method in ("files/snapshot", "files/list", "context/checkpoint"):
        place.ask_kept(method)
    (place.folder / "away").rename(root)


def deleted_and_back(place: Place) -> None:
    place.ask("session/delete", sessionId="never")
    place.ask("session/purge", sessionId="never")
    place.ask("session/open", sessionId="gone")
    place.ask("session/close", sessionId="gone")
    place.ask("session/delete", sessionId="gone")
    place.ask("session/purge", sessionId="gone")


PATHS: list[Callable[[Place], None]] = [
    refused_openings,
    refused_imports,
    refused_forks,
    refused_exports,
    refused_reading,
    refused_files,
    saved_and_put_back,
    deleted_and_back,
    *(functools.partial(exported, form=form) for form in ("native", "markdown", "html")),
]


def in_use(server: Server) -> tuple[int, int, int]:
    """Descriptors, threads and processes of a server: the fewest of some looks, since background work goes on."""
    proc = Path(f"/proc/{server.process.pid}")
    children = []
    for task in (proc / "task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended meanwhile
            children.append(len((task / "children").read_text().split()))
    return descriptors(server), len(list((proc / "task").iterdir())), sum(children)


def refuse_growth(place: Place, use: Callable[[Place], None], times: int) -> None:
    refuse_growth_of(place.server, lambda: use(place), times)


def refuse_growth_of(server: Server, use: Callable[[], None], times: int) -> None:
    for _ in range(3):
        use()
    before = in_use(server)
    for _ in range(times):
        use()
    wait_until(lambda: all(now <= then + SPARE for now, then in zip(in_use(server), before, strict=True)))


@pytest.mark.skipif(sys.platform != "linux", reason="descriptors are counted in /proc")
@pytest.mark.parametrize("times", [5, pytest.param(20, marks=pytest.mark.long)])
def test_no_way_of_failing_keeps_descriptors_threads_or_processes(
    uncollected: Server, tmp_path: Path, times: int
) -> None:
    place = Place(uncollected, tmp_path / "place")
    for use in PATHS:
        refuse_growth(place, use, times)
    assert place.kept.texts() == ["x"]
