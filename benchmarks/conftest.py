"""What several measurements need."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import pytest
from benchmarks import results
from benchmarks.measure import Measured
from benchmarks.original import Original
from benchmarks.parts import Part
from benchmarks.rows import BY_KEY
from benchmarks.server import EDGE, GREETING, LEAST, Server
from rich.console import Console


class Judge(Protocol):
    """What a benchmark tells of a row; see the fixture."""

    def __call__(
        self,
        key: str,
        ours: Measured | None = None,
        peer: Measured | None = None,
        *,
        values: Sequence[float] = (),
        per: int = 1,
        note: str = "",
        least: Measured | None = None,
        guarded: Measured | None = None,
        edge: Measured | None = None,
        parts: Sequence[Part] = (),
    ) -> None: ...


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--ci", action="store_true", help="only benchmarks of rows that CI judges")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "rows(*keys): the rows of benchmarks/rows.py that a benchmark answers")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With `--ci`, leave the benchmarks whose rows CI does not judge."""
    if config.getoption("--ci"):
        chosen = [item for item in items if any(BY_KEY[key].ci for key in keys(item))]
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = chosen


def keys(item: pytest.Item) -> Sequence[str]:
    """The keys of the rows that a benchmark answers."""
    return [key for mark in item.iter_markers("rows") for key in mark.args]


@pytest.fixture(scope="session", autouse=True)
def _one_core() -> Iterator[None]:
    """Keep client, servers and peers on one core: wake-ups across cores cost more than what is measured, and vary."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    yield
    os.sched_setaffinity(0, allowed)


@pytest.fixture(scope="session", autouse=True)
def _bytecode() -> Iterator[None]:
    """Let processes keep what they compiled, as an installed program has it, where this one must not."""
    with pytest.MonkeyPatch.context() as patch:
        if sys.dont_write_bytecode:
            patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
            patch.setenv("PYTHONPYCACHEPREFIX", str(Path(tempfile.gettempdir(), "timeleap-tests-bytecode")))
        yield


MISSED: Final = pytest.StashKey[list[str]]()


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    """Fail a benchmark one of whose rows missed its must, once it has judged them all."""
    done = yield
    if missed := pyfuncitem.stash.get(MISSED, []):
        pytest.fail("\n".join(missed), pytrace=False)
    return done


@pytest.fixture
def judge(request: pytest.FixtureRequest) -> Judge:
    """Takes what was measured of a row, keeps it for the report, and fails the test where the must is missed.

    All rows of a test are kept before it fails. Of a row give either two cases of one `interleaved` run (`ours`, `peer`)
    or the `values` of the rounds in the row's unit (or as ratios). `per` is how many operations a case does: for the
    report, which tells the time of one. `least` is a case that does the least there is to do: what it reaches is the
    row's limit; `guarded` the same that keeps the guarantees, `edge` the same behind our protocol edge. `parts` are where our
    time goes. With `--ci` only rows for CI fail.
    """
    missed = request.node.stash.setdefault(MISSED, [])
    only_ci = request.config.getoption("--ci")

    def told(
        key: str,
        ours: Measured | None = None,
        peer: Measured | None = None,
        *,
        values: Sequence[float] = (),
        per: int = 1,
        note: str = "",
        least: Measured | None = None,
        guarded: Measured | None = None,
        edge: Measured | None = None,
        parts: Sequence[Part] = (),
    ) -> None:
        assert key in keys(request.node), f"mark the test with rows({key!r})"
        row = BY_KEY[key]
        if ours is not None and peer is not None:
            reached = {
                name: None if case is None else results.against(row, case, peer).value
                for name, case in (("limit", least), ("guarded", guarded), ("edge", edge))
            }
            possible = {"edge": edge, "limit": least, None: None}[row.share_of]
            assert possible is not None or row.share_of is None, f"row {key} needs the case of its {row.share_of}"
            share = None if possible is None else results.share(ours, possible)
            result = results.against(row, ours, peer, per, note=note, parts=parts, share=share, **reached)
        else:
            result = results.Result.of(row, values, note=note, parts=parts)
        results.keep(result)
        Console(stderr=True).print(str(result), highlight=False, soft_wrap=True)
        if not result.holds and (row.ci or not only_ci):
            missed.append(str(result))

    return told


@pytest.fixture
def original() -> Iterator[Original]:
    """The original program."""
    program = Original()
    yield program
    program.kill()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server of ours with a store in `tmp_path / "store"`."""
    running = Server.timeleap(tmp_path / "store")
    yield running
    running.kill()


@pytest.fixture
def least() -> Iterator[Callable[..., Server]]:
    """Starts processes that do the least for a request (`least.py`), each on the file and with the arguments given."""
    yield from _started(lambda file, *arguments: Server(LEAST, str(file), *arguments))


@pytest.fixture
def edge() -> Iterator[Callable[..., Server]]:
    """Starts processes with the protocol edge of ours over the least (`edge.py`), each on the file given."""

    def initialized(file: Path) -> Server:
        server = Server(EDGE, str(file))
        server.request("initialize", GREETING)
        return server

    yield from _started(initialized)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Starts servers of ours with the arguments given, all with the store in `tmp_path / "store"`."""
    yield from _started(lambda *arguments: Server.timeleap(tmp_path / "store", *arguments))


def _started(make: Callable[..., Server]) -> Iterator[Callable[..., Server]]:
    """Gives what starts servers by `make`; they are killed at the end."""
    running: list[Server] = []

    def start(*arguments: Any) -> Server:
        running.append(make(*arguments))
        return running[-1]

    yield start
    for server in running:
        server.kill()
