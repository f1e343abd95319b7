"""Servers on a database, each as if on a machine of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.postgresql import shared_cluster
from tests.support.server import Launch, Server

Serve = Callable[..., Server]
"""Takes the URL of the database, the client's `capabilities`, and options of `Launch`."""


@contextmanager
def machines(folder: Path) -> Iterator[Serve]:
    """Starts servers on a database, each as if on a machine of its own, with its home in `folder`; they end with the
    block."""
    started: list[Server] = []

    def start(store: str, *, capabilities: dict[str, Any] | None = None, **options: Any) -> Server:
        server = Server(Launch(folder / f"machine{len(started)}" / "home", "lsp", args=["--store", store], **options))
        started.append(server)
        server.initialize(clientInfo={"name": f"client{len(started)}"}, capabilities=capabilities or {})
        return server

    yield start
    for server in started:
        server.dispose()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts a server on a database, each as if on a machine of its own."""
    with machines(tmp_path) as start:
        yield start


@pytest.fixture
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A database with nothing in it, but perhaps the empty tables of a store."""
    cluster = shared_cluster()
    url = cluster.store() if request.node.get_closest_marker("no_tables") is None else cluster.new_database()
    yield url
    cluster.give_back(url)
