"""Fixtures of the black-box tests. A `conftest.py` takes them in by `from tests.support.fixtures import *`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.support import ready
from tests.support.approvals import Windows
from tests.support.framing import FRAMINGS, Framing
from tests.support.scene import Scene, Two, scene_at
from tests.support.server import DATABASES, Launch, Server
from tests.support.session import Session

__all__ = [
    "engine",
    "framing",
    "home",
    "ready_servers",
    "scene",
    "server",
    "servers",
    "session",
    "shared",
    "start",
    "start_at",
    "two",
    "windows",
    "with_store",
]

Engine = Literal["jsonl", "postgresql"]
StartServer = Callable[..., Server]


@pytest.fixture(scope="module", params=FRAMINGS)
def framing(request: pytest.FixtureRequest) -> Framing:
    """Each of the two framings in turn."""
    chosen: Framing = request.param
    return chosen


@pytest.fixture(scope="module")
def engine(request: pytest.FixtureRequest) -> Engine:
    """Where the sessions of a test's servers are; `tests/wire/conftest.py` says which tests run with each."""
    chosen: Engine = getattr(request, "param", "jsonl")
    return chosen


def with_store(home: Path, engine: Engine) -> Path:
    """A home whose sessions are there, or in a database of its own."""
    if engine == "postgresql":
        from tests.support.postgresql import shared_cluster

        DATABASES[home] = shared_cluster().store
    return home


@contextmanager
def _running(home: Path, framing: Framing) -> Iterator[Server]:
    running = Server(Launch(home, framing))
    try:
        running.initialize(clientInfo={"name": "tests"})
        yield running
    finally:
        running.dispose()


@pytest.fixture(scope="module")
def server(engine: Engine, framing: Framing, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One initialized server for all tests of a module; they keep apart by their sessions."""
    with _running(with_store(tmp_path_factory.mktemp("server") / "home", engine), framing) as running:
        yield running


@pytest.fixture(scope="module")
def shared(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The same where the framing makes no difference."""
    with _running(with_store(tmp_path_factory.mktemp("shared") / "home", engine), "lsp") as running:
        yield running


@pytest.fixture
def session(server: Server) -> Session:
    """A new session on the module's server."""
    return Session.open(server)


@pytest.fixture
def home(engine: Engine, tmp_path: Path) -> Iterator[Path]:
    """A store of the test's own, not created yet."""
    home = with_store(tmp_path / "home", engine)
    yield home
    if (url := DATABASES.made(home)) is not None:
        from tests.support.postgresql import shared_cluster

        shared_cluster().give_back(url)


@pytest.fixture
def ready_servers() -> Iterator[None]:
    """Clients' servers are forked off a process that is ready; the process that a client started is not the server then."""
    with ready.clients_servers():
        yield


@pytest.fixture
def start_at(tmp_path: Path) -> Iterator[StartServer]:
    """Start servers that have said and heard nothing yet: `start_at(home, framing, args=..., env=..., ...)`."""
    started: list[Server] = []

    def start(
        home: Path,
        framing: Framing = "lsp",
        *,
        args: tuple[str, ...] = (),
        env: dict[str, str] | None = None,
        wrapper: tuple[str, ...] = (),
        home_argument: bool = True,
        private: Path | None = None,
        fresh: bool = False,
        **options: Any,
    ) -> Server:
        launch = Launch(home, framing, args, env or {}, wrapper, home_argument, private, fresh)
        started.append(Server(launch, **options))
        return started[-1]

    try:
        yield start
    finally:
        failures = [failure for failure in map(_disposed, started) if failure is not None]
        if failures:
            raise failures[0]


@pytest.fixture
def start(start_at: StartServer, home: Path) -> StartServer:
    """Start initialized servers on the test's own store: `start(framing=..., failpoints=..., options={...})`."""
    names = (f"client-{number}" for number in itertools.count(1))

    def launch(
        framing: Framing = "lsp",
        *,
        at: Path | None = None,
        failpoints: str = "",
        options: dict[str, Any] | None = None,
        env: dict[str, str] | None = None,
        **others: Any,
    ) -> Server:
        environment = {**(env or {}), **({"TIMELEAP_FAILPOINTS": failpoints} if failpoints else {})}
        running = start_at(home if at is None else at, framing, env=environment, **others)
        running.initialize(clientInfo={"name": next(names)}, initializationOptions=options or {})
        return running

    return launch


@pytest.fixture
def scene(home: Path) -> Iterator[Scene]:
    """Many windows on one session of the test's own store."""
    with scene_at(home) as many:
        yield many


@pytest.fixture
def windows(home: Path) -> Iterator[Windows]:
    """Processes on the test's own store that hear of requests for approvals."""
    many = Windows(home, [])
    try:
        yield many
    finally:
        for server in many.servers:
            server.dispose()


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    """Two processes on one store, `client-1` and `client-2`, one of each framing; tests keep apart by their sessions."""
    with scene_at(tmp_path_factory.mktemp("windows") / "home") as scene:
        yield [*scene.servers(1, "lsp"), *scene.servers(1, "ndjson")]


@pytest.fixture
def two(servers: list[Server]) -> Two:
    """A new session, owned by the first process and attached by the second."""
    owner = Session.open(servers[0])
    return Two(owner, owner.reopen(servers[1]))


def _disposed(server: Server) -> BaseException | None:
    try:
        server.dispose()
    except BaseException as failure:
        return failure
    return None
