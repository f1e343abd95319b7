from __future__ import annotations

from tests.support.fixtures import home, start, start_at

__all__ = ["home", "start", "start_at"]
