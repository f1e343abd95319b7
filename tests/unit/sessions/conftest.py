from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.sessions.worlds import World


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A store with a key of its own; `restart` gives it a new life."""
    made = World(tmp_path)
    yield made
    await made.close()
