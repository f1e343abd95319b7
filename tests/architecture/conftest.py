from __future__ import annotations

from tests.support.fixtures import engine, home, start, start_at

__all__ = ["engine", "home", "start", "start_at"]
