"""What several measurements need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.original import Original
from benchmarks.server import Server


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
