"""One session in many windows: servers of their own, each with a client of its own, all on the same session."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.framing import Framing
from tests.support.server import PATIENCE, Launch, Message, Server
from tests.support.session import Session

CHANGES = ("context/didChange", "session/didChange")


class Scene:
    """Servers on one store, and one session that their clients have open.

    Attributes:
        windows: The session as each client that is still there has it open; the one that came first is the owner.
    """

    def __init__(self, home: Path, session_id: str = "s") -> None:
        self.home = home
        self.session_id = session_id
        self.windows: list[Session] = []
        self._servers: list[Server] = []

    def servers(
        self,
        count: int,
        framing: Framing = "lsp",
        *,
        at: Path | None = None,
        env: dict[str, str] | None = None,
        args: tuple[str, ...] = (),
    ) -> list[Server]:
        """Start servers, all at the same time; their clients are called `client-1` and so on."""
        begun = [Server(Launch(at or self.home, framing, args, env or {})) for _ in range(count)]
        first = len(self._servers) + 1
        self._servers += begun
        for number, server in enumerate(begun, first):
            server.initialize(clientInfo={"name": f"client-{number}"})
        return begun

    def enter(self, server: Server, **params: Any) -> Session:
        """Open the session in a server."""
        self.windows.append(Session.open(server, self.session_id, **params))
        return self.windows[-1]

    def window(self, framing: Framing = "lsp", *, env: dict[str, str] | None = None, **params: Any) -> Session:
        """Start a server and open the session there."""
        return self.enter(self.servers(1, framing, env=env)[0], **params)

    def crowd(self, count: int, framing: Framing = "lsp") -> list[Session]:
        """So many windows more."""
        return [self.enter(server) for server in self.servers(count, framing)]

    def lost(self, window: Session) -> None:
        """Note that a window is no more."""
        self.windows.remove(window)

    def dispose(self) -> None:
        """Make sure that all servers are gone; fails if one of them ever broke the rules of the stream."""
        failures = []
        for server in self._servers:
            try:
                server.dispose()
            except AssertionError as failure:
                failures.append(failure)
        if failures:
            raise failures[0]


@contextmanager
def scene_at(home: Path) -> Iterator[Scene]:
    """A scene whose servers end with the block."""
    scene = Scene(home)
    try:
        yield scene
    finally:
        scene.dispose()


def settle(windows: Iterable[Session]) -> None:
    """Wait until each window has heard of all that has happened: what is asked now is answered behind it."""
    for pending in [window.start("session/getState") for window in windows]:
        pending.result()


@contextmanager
def stopped(*windows: Session) -> Iterator[None]:
    """The servers of some windows do nothing meanwhile."""
    for window in windows:
        window.server.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for window in windows:
            window.server.signal(signal.SIGCONT)


def marks(windows: Iterable[Session]) -> dict[int, int]:
    """How much each window has received by now; see `changes`."""
    return {id(window): len(window.server.received) for window in windows}


def changes(window: Session, since: int | dict[int, int] = 0) -> list[Message]:
    """What the window was told of its session: the params of the notifications, in order."""
    start = since if isinstance(since, int) else since.get(id(window), 0)
    return [
        message["params"]
        for message in window.server.notifications(start)
        if message["method"] in CHANGES and message["params"]["sessionId"] == window.id
    ]


def told_first(window: Session, since: int = 0) -> None:
    """Fail unless each reply with a new head came after the notification of that head."""
    told = {window.state["head"]}
    for message in window.server.received[:since]:
        told.add(_head(message))
    for message in window.server.received[since:]:
        if message.get("method") in CHANGES:
            told.add(message["params"]["head"])
        elif "access" not in (result := message.get("result") or {}) and "head" in result:
            assert result["head"] in told, f"nobody told of {message}"


def _head(message: Message) -> Any:
    return (message.get("params") or message.get("result") or {}).get("head")


def owner_of(server: Server, session_id: str) -> int | None:
    """The process that the store says owns the session."""
    for info in server.call("session/list", limit=1000)["sessions"]:
        if info["sessionId"] == session_id:
            return info["owner"]["pid"] if "owner" in info else None
    raise AssertionError(f"no session {session_id}")


def access_told(window: Session, since: int, timeout: float = PATIENCE) -> str:
    """Wait for `accessChanged`; returns the access."""
    told = window.server.heard(
        "session/didChange", since=since, timeout=timeout, kind="accessChanged", sessionId=window.id
    )
    return str(told["access"])


def taken_over(windows: list[Session], before: dict[int, int], timeout: float = PATIENCE) -> Session:
    """Wait until each window was told who owns the session now; returns the new owner's.

    Fails unless there is exactly one.
    """
    heirs = [window for window in windows if access_told(window, before[id(window)], timeout) == "owner"]
    assert len(heirs) == 1, f"{len(heirs)} windows trust_index that they own the session"
    return heirs[0]


def until(condition: Any, *, timeout: float = PATIENCE, saying: str = "") -> None:
    """Wait until `condition()` is true."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout:g} s: {saying}"
        time.sleep(0.02)


@dataclass(frozen=True)
class Two:
    """A session in two windows: its owner's, and one of another process."""

    owner: Session
    attached: Session

    @property
    def both(self) -> tuple[Session, Session]:
        """The two windows."""
        return self.owner, self.attached

    def since(self) -> tuple[int, int]:
        """How much each has received by now."""
        settle(self.both)
        return len(self.owner.server.received), len(self.attached.server.received)

    def told(self, since: tuple[int, int]) -> list[Message]:
        """What was told since then; fails unless both were told the same."""
        settle(self.both)
        here, there = (changes(window, mark) for window, mark in zip(self.both, since, strict=True))
        assert here == there
        return there
