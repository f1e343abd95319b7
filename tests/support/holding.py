"""Stopping a server at one of its failpoints, for as long as a test likes."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

PATIENCE = 60.0
"""Seconds after which what is waited for is not coming (generous: the machine may be busy)."""


class Hold:
    """Holds a server up when it comes to a failpoint, once.

    Args:
        name: The failpoint.
        directory: Where a file can stand that says so.
        passing: At which passing, if not at the first.
    """

    def __init__(self, name: str, directory: Path, passing: int = 1) -> None:
        self._sign = directory / f"held-{name}"
        self.failpoints = f"{name}@{passing}=hold:{self._sign}"
        self.environment = {"TIMELEAP_FAILPOINTS": self.failpoints}

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


def present() -> str:
    """The present, ISO 8601: in no millisecond in which anything was done before, or will be done from now on."""
    _next_millisecond()
    stamp = datetime.now(UTC).isoformat()
    _next_millisecond()
    return stamp


def _next_millisecond() -> None:
    last = time.time_ns() // 1_000_000
    wait_until(lambda: time.time_ns() // 1_000_000 > last)


def file_time_passes() -> None:
    """Return when a file that is written from now on has a later time than all that were written before.

    File systems take the time of the last tick of the system's clock, several milliseconds apart.
    """
    with tempfile.TemporaryDirectory() as directory:
        probe = Path(directory, "probe")

        def written() -> int:
            probe.write_bytes(b"x")
            return probe.stat().st_mtime_ns // 1_000_000

        last = written()
        wait_until(lambda: written() > last)
