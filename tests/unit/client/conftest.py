from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.client.fake import Fake


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    """A fake server."""
    home = tmp_path / "home"
    home.mkdir()
    return Fake(home)
