"""Fixtures of the long programmes."""

from __future__ import annotations

from tests.support.machines import serve  # noqa: F401
