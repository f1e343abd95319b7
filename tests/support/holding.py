"""Stopping a server at one of its failpoints, for as long as a test likes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

PATIENCE = 60.0
"""Seconds after which what is waited for is not coming (generous: the machine may be busy)."""


class Hold:
    """Holds a server up the first time that it comes to a failpoint.

    Args:
        name: The failpoint.
        directory: Where a file can stand that says so.
    """

    def __init__(self, name: str, directory: Path) -> None:
        self._sign = directory / f"held-{name}"
        self.failpoints = f"{name}@1=hold:{self._sign}"

    def wait(self) -> None:
        """Return when the server has come there."""
        wait_until(self._sign.exists)

    def release(self) -> None:
        """Let it go on."""
        self._sign.unlink()


def wait_until(condition: Callable[[], object]) -> None:
    """Return when something is so."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.005)
