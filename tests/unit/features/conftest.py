from __future__ import annotations

from tests.unit.sessions.conftest import world

__all__ = ["world"]
