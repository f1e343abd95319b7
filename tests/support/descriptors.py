"""Descriptors that a test may close itself, and that are closed after it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def closed_at_the_end(*descriptors: int) -> Iterator[None]:
    """Close those that are still open after the block: the number of one that was closed may be another's by then."""
    opened = {descriptor: _identity(descriptor) for descriptor in descriptors}
    try:
        yield
    finally:
        for descriptor, identity in opened.items():
            with suppress(OSError):
                if _identity(descriptor) == identity:
                    os.close(descriptor)


def _identity(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino
