"""The operating system as the storage layer sees it: the name `os` in the modules that use it."""

from __future__ import annotations

import pytest

from timeleap.storage import durable, lock


def stand_in_for_os(patch: pytest.MonkeyPatch, stand_in: object) -> None:
    """Put something else in the place of `os`."""
    for module in (durable, lock):
        patch.setattr(module, "os", stand_in)
