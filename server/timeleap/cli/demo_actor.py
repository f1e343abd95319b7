"""A program in the demo, whose requests are shown."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, Self

from timeleap.cli.backend import Backend, OpenSession
from timeleap.cli.demo_screen import Screen
from timeleap.cli.graph import read_graph
from timeleap.cli.terminal import Terminal
from timeleap.json_value import Json
from timeleap_client.notifications import Notification


class Actor:
    """A program in the demo: a client, its server and the session it has open.

    Requests of the methods `shown` are shown on the screen, and those that `call` makes; those on `session` are not.
    Where no `store` is named the sessions are in the home, whatever the environment says.
    """

    backend: Backend | None = None
    session: OpenSession

    def __init__(
        self,
        screen: Screen,
        home: Path,
        session_id: str,
        name: str = "timeleap-cli",
        *,
        shown: Iterable[str] = (),
        store: str | None = None,
    ) -> None:
        self.session_id = session_id
        self.requests = 0
        self.heard: list[Json] = []
        self._screen = screen
        self._name = name
        self._terminal = Terminal(home, machine=True)
        self._store = str(home) if store is None else store
        self._shown = set(shown)
        self._ids: dict[Any, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_server()

    def start_server(self) -> float:
        """Start it; returns the seconds until it had answered `initialize`."""
        began = time.monotonic()
        self.backend = Backend(
            self._terminal, self._crossed, self._name, patience=10.0, process=True, store=self._store
        ).__enter__()
        return time.monotonic() - began

    def stop_server(self) -> int | None:
        backend, self.backend = self.backend, None
        return backend.close() if backend is not None else None

    def kill_server(self) -> None:
        """Kill the server with SIGKILL, as the out-of-memory killer does."""
        assert self.pid is not None
        os.kill(self.pid, getattr(signal, "SIGKILL", signal.SIGTERM))

    @property
    def pid(self) -> int | None:
        return None if self.backend is None else self.backend.client.pid

    def open(self, **params: Any) -> Json:
        assert self.backend is not None
        self.backend.client.on(self._hear, "context/didChange", session_id=self.session_id)
        state: Json = self.backend.call("session/open", {"sessionId": self.session_id, **params})
        self.session = OpenSession(self.backend, state)
        return state

    def call(self, method: str, **params: Any) -> Json:
        self._shown.add(method)
        try:
            return self.session.call(method, **params)
        finally:
            self._shown.discard(method)

    def history(self) -> list[Json]:
        return [entry["message"] for entry in self.session.pages("context/getHistory", "messages", limit=500)]

    def checkpoints(self) -> list[Json]:
        return list(self.session.pages("context/listCheckpoints", "checkpoints", order="asc", limit=1000))

    def state(self) -> Json:
        return self.session.call("session/getState")

    def draw(self) -> None:
        self._screen.picture(read_graph(self.session, checkpoints=6, timelines=6))

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
                self._screen.wire(direction, message)
        elif direction == "received" and method is None and self._ids.pop(message.get("id"), None) is not None:
            self._screen.wire(direction, message)
