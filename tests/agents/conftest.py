"""The adapters of agents' SDKs, on the real server. The SDKs are in `.tools/agents` (`make agents`).

Without them these tests are left out; in CI that is an error.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.agents.model import Model
from tests.agents.window import Window
from tests.support import ready

from timeleap_client import RawTimeleap

AGENTS = Path(__file__).resolve().parents[2] / ".tools" / "agents" / "python"
PACKAGES = ready.SDKS
if PACKAGES.is_dir():
    sys.path.append(str(PACKAGES))  # last: what our own environment has comes from there
elif not os.environ.get("CI"):
    collect_ignore_glob = ["test_*.py"]


Blocking = Callable[[Callable[[RawTimeleap], Awaitable[Any]]], Any]


@pytest.fixture(scope="module", autouse=True)
def _ready_servers() -> Iterator[None]:
    with ready.clients_servers():
        yield


@pytest.fixture
def model() -> Iterator[Model]:
    model = Model()
    yield model
    model.close()


@pytest.fixture(scope="module")
def blocking_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Blocking]:
    """Runs what it is given with a client that all examples of a test share."""
    home = tmp_path_factory.mktemp("shared")
    with asyncio.Runner() as runner:
        client = RawTimeleap(home=home)
        runner.run(client.start())

        async def run(work: Callable[[RawTimeleap], Awaitable[Any]]) -> Any:
            return await work(client)

        yield lambda work: runner.run(run(work))
        runner.run(client.aclose())


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[RawTimeleap]:
    async with RawTimeleap(home=tmp_path / "home", name="agent") as client:
        yield client


@pytest.fixture
async def window(tmp_path: Path, client: RawTimeleap) -> AsyncIterator[Window]:
    """A second program on the same store."""
    async with RawTimeleap(home=tmp_path / "home", name="window") as other:
        yield Window(other)
