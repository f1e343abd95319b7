"""A program in the demo: a client with a server of its own, whose messages are shown when they matter."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, Self

from timeleap.cli.backend import Backend, OpenSession
from timeleap.cli.demo.screen import Screen
from timeleap.cli.formatting import Json
from timeleap.cli.graph import read_graph
from timeleap.cli.terminal import Terminal
from timeleap_client.notifications import Notification


class Actor:
    """A client, its server and the session it has open.

    Args:
        stage: Where its messages are shown.
        home: The store.
        session_id: The session it opens.
        name: Its client name in notifications and audits.
        shown: Methods whose requests are shown, no matter where they come from.

    Attributes:
        requests: How many it has made.
        heard: Notifications about the session's log since it was opened.
    """

    def __init__(
        self, stage: Screen, home: Path, session_id: str, name: str = "timeleap-cli", shown: Iterable[str] = ()
    ) -> None:
        self.stage = stage
        self.session_id = session_id
        self.requests = 0
        self.heard: list[Json] = []
        self._name = name
        self._terminal = Terminal(home, machine=True)
        self._shown = set(shown)
        self._ids: dict[Any, str] = {}
        self._backend: Backend | None = None
        self._session: OpenSession | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_server()

    # the server

    def start_server(self) -> float:
        """Start it; returns the seconds until it had answered `initialize`."""
        began = time.monotonic()
        self._backend = Backend(self._terminal, trace=self._crossed, name=self._name, patience=10.0)
        self._backend.start()
        return time.monotonic() - began

    def stop_server(self) -> int | None:
        """End it in good order; returns its exit code."""
        backend, self._backend, self._session = self._backend, None, None
        return backend.close() if backend is not None else None

    def kill_server(self) -> None:
        """Kill the server with SIGKILL, as the out-of-memory killer does."""
        assert self.pid is not None
        os.kill(self.pid, getattr(signal, "SIGKILL", signal.SIGTERM))

    @property
    def pid(self) -> int | None:
        """The process id of its server."""
        return None if self._backend is None else self._backend.client.pid

    # the session

    def open(self, **params: Any) -> Json:
        """Open the session; what follows is about it."""
        assert self._backend is not None
        self._backend.client.on(self._hear, "context/didChange", session_id=self.session_id)
        state: Json = self._backend.call("session/open", {"sessionId": self.session_id, **params})
        self._session = OpenSession(self._backend, state)
        return state

    def call(self, method: str, **params: Any) -> Json:
        """A request on the session, shown."""
        self._shown.add(method)
        try:
            return self.session.call(method, **params)
        finally:
            self._shown.discard(method)

    @property
    def session(self) -> OpenSession:
        """The open session; requests on it are not shown."""
        assert self._session is not None
        return self._session

    def history(self) -> list[Json]:
        """All messages, as the server tells them."""
        return [entry["message"] for entry in self.session.pages("context/getHistory", "messages", limit=500)]

    def checkpoints(self) -> list[Json]:
        """All checkpoints, oldest first."""
        pages = self.session.pages("context/listCheckpoints", "checkpoints", order="asc", limit=1000)
        return list(pages)

    def state(self) -> Json:
        """The session's state."""
        return self.session.call("session/getState")

    def draw(self) -> None:
        """Show the session as a graph."""
        self.stage.picture(read_graph(self.session, checkpoints=6, timelines=6))

    def _hear(self, notification: Notification) -> None:
        self.heard.append(notification.params)

    def _crossed(self, direction: Literal["sent", "received"], message: Json) -> None:
        method = message.get("method")
        if direction == "sent" and "id" in message and method is not None:
            self.requests += 1
            if method == "initialize":
                self._ids.clear()  # a new connection counts from the beginning
            if method in self._shown:
                self._ids[message["id"]] = method
                self.stage.wire(direction, message)
        elif direction == "received" and method is None and self._ids.pop(message.get("id"), None) is not None:
            self.stage.wire(direction, message)
